// The savings view: tokens saved by client and by toolbox, and unused tools.

import { by_id, fill, h, table } from "./dom.js";
import * as charts from "./charts.js";
import { client_name, count, date, number } from "./format.js";

const MAX_TOOLS = 1000;

export function draw(view) {
  const clients = new Map();
  for (const agent of view.agents) {
    const name = agent.client ? client_name(agent) : (agent.name ?? "(unnamed)");
    const known = clients.get(name) ?? { sessions: 0, calls: 0, saved: 0 };
    clients.set(name, {
      sessions: known.sessions + 1,
      calls: known.calls + agent.calls,
      saved: known.saved + agent.savedTokens,
    });
  }
  const toolboxes = view.toolboxes.map((toolbox) => {
    const sum = (of) => toolbox.servers.reduce((all, server) => all + (of(server) ?? 0), 0);
    return [toolbox.name, { calls: sum((server) => server.calls), tokens: sum((server) => server.tokens), opened: toolbox.opened }];
  });
  fill(
    by_id("savings"),
    h(
      "p",
      null,
      h("strong", { class: "big" }, number(view.savedTokens)),
      " tokens saved in total, including disconnected agents: the tool definitions that their clients would have loaded with every server configured directly, minus those that the workbench sent them.",
    ),
    h("div", { class: "plots one" }, charts.saved(view)),
    h("h3", { id: "by-client" }, "By connected client"),
    bars("by-client", ["Client", "#Sessions", "#Calls", "#Tokens saved"], [...clients], (entry) => [entry.sessions, entry.calls, entry.saved], "No agents are connected."),
    h("h3", { id: "by-toolbox" }, "Definitions by toolbox"),
    bars("by-toolbox", ["Toolbox", "#Calls", "#Agents with it open", "#Definition tokens"], toolboxes, (entry) => [entry.calls, entry.opened, entry.tokens], "No toolboxes are configured."),
  );
}

/** A table with a bar for the last number of each row. */
function bars(named_by, heads, entries, cells, none) {
  if (entries.length === 0) {
    return h("p", { class: "faint" }, none);
  }
  const drawn = (entry) => cells(entry).at(-1);
  const most = Math.max(...entries.map(([, entry]) => drawn(entry)));
  const rows = entries.map(([name, entry]) =>
    h(
      "tr",
      { "data-key": name },
      h("th", { scope: "row" }, name),
      cells(entry).map((value) => h("td", { class: "number" }, number(value))),
      h("td", { class: "plot" }, charts.bar(drawn(entry), most)),
    ),
  );
  return table(named_by, [...heads, ""], h("tbody", null, rows));
}

export function draw_unused(answer) {
  const servers = new Map();
  for (const [toolbox, server, tool] of answer.tools.slice(0, MAX_TOOLS)) {
    const key = `${toolbox} / ${server}`;
    servers.set(key, [...(servers.get(key) ?? []), tool]);
  }
  if (servers.size === 0) {
    fill(by_id("unused"), h("p", { class: "faint" }, "None: every known tool has been used."));
    return;
  }
  const rows = [...servers].map(([server, tools]) =>
    h("tr", null, h("th", { scope: "row" }, server), h("td", { class: "number" }, number(tools.length)), h("td", null, tools.flatMap((tool) => [h("code", null, tool), " "]))),
  );
  fill(
    by_id("unused"),
    h("p", { class: "faint" }, `${count(answer.tools.length, "unused tool")}${answer.since ? ` since ${date(answer.since)}` : ""}.`),
    table("unused-head", ["Server", "#Tools", "Names"], h("tbody", null, rows)),
    answer.patch && [
      h("div", { class: "head" }, h("h4", null, "To hide these tools, merge this into the configuration"), h("button", { type: "button", id: "copy-patch" }, "Copy")),
      h("pre", { id: "patch", tabindex: "0", "aria-label": "Configuration patch" }, answer.patch),
    ],
  );
}
