// The overview: figures, charts, toolboxes with their servers, calls and agents.

import { by_id, fill, h, table } from "./dom.js";
import * as charts from "./charts.js";
import { bytes, client_name, clock, count, date, number, short, some, span, time } from "./format.js";
import { STATES, WORDS } from "./words.js";

const MAX_SERVERS = 300;

/** Keys of expanded servers, and of servers and toolboxes with an action in flight. */
export const expanded = new Set();
export const pending = new Set();
/** Sign-in pages by server key. */
export const pages = new Map();
/** Sent as a request of its own instead of an action. */
export const SIGN_IN = "signIn";

/** The key of a server, or of a toolbox if `server` is `null`. */
export const server_key = (toolbox, server) => JSON.stringify([toolbox, server ?? null]);

export function draw(view, may_act) {
  const servers = view.toolboxes.flatMap((toolbox) => toolbox.servers);
  figures(view, servers);
  fill(by_id("plots"), charts.calls(view), charts.latency(view));
  draw_servers(view, may_act);
  draw_calls(view);
  draw_agents(view);
}

function figures(view, servers) {
  const sum = (of) => servers.reduce((all, server) => all + (of(server) ?? 0), 0);
  const running = servers.filter((server) => server.state === "running").length;
  const failed = servers.filter((server) => server.state === "failed").length;
  const entries = [
    ["Servers running", `${number(running)} of ${number(servers.length)}`, failed ? `${number(failed)} failed` : null],
    ["Agents", number(view.agents.length)],
    ["Calls", number(sum((server) => server.calls)), some(sum((server) => server.errors)) && `${number(sum((server) => server.errors))} failed`],
    ["Calls in flight", number(view.callsInFlight)],
    ["p95 latency", view.latency ? time(view.latency.p95) : "–"],
    ["Server memory", bytes(sum((server) => server.memoryBytes)) || "–"],
    ["Definition tokens", short(sum((server) => server.tokens))],
    ["Tokens saved", short(view.savedTokens)],
  ];
  fill(
    by_id("figures"),
    entries.map(([name, value, bad]) =>
      h("div", { "data-key": name }, h("dt", { title: WORDS[name] }, name), h("dd", null, value, bad && h("small", { class: "bad" }, " ", bad))),
    ),
  );
  fill(by_id("window"), view.callsSince ? `Calls, errors and latencies since ${date(view.callsSince)}, when they were first watched. The charts show the last 10 minutes.` : "");
}

function button(act, toolbox, server, may_act) {
  const is_pending = pending.has(server_key(toolbox, server));
  const whom = server === null ? `all servers in ${toolbox}` : `${server} in ${toolbox}`;
  const said = act === SIGN_IN ? "Sign in" : act[0].toUpperCase() + act.slice(1);
  return (
    may_act &&
    h(
      "button",
      {
        type: "button",
        "data-key": act,
        "data-act": act,
        "data-toolbox": toolbox,
        "data-server": server,
        "aria-label": `${said} ${whom}`,
        "aria-disabled": is_pending ? "true" : null,
      },
      said,
    )
  );
}

function acts(server) {
  if (server.isPaused) {
    return ["resume"];
  }
  if (server.signIn) {
    return [SIGN_IN, "pause"];
  }
  return server.state === "running" || server.state === "starting" ? ["restart", "stop", "pause"] : ["start", "pause"];
}

function draw_servers(view, may_act) {
  const wanted = by_id("filter").value.trim().toLowerCase();
  const is_wanted = (...texts) => texts.some((text) => text.toLowerCase().includes(wanted));
  let left = MAX_SERVERS;
  let hidden = 0;
  const bodies = view.toolboxes.flatMap((toolbox) => {
    const own = is_wanted(toolbox.name, toolbox.description);
    const servers = toolbox.servers.filter((server) => own || is_wanted(server.name, server.state));
    const drawn = servers.slice(0, left);
    left -= drawn.length;
    hidden += servers.length - drawn.length;
    return drawn.length === 0
      ? []
      : [
          h(
            "tbody",
            { "data-key": toolbox.name },
            toolbox_row(toolbox, may_act),
            drawn.flatMap((server) => server_rows(view, toolbox, server, may_act)),
          ),
        ];
  });
  const heads = ["Server", "State", "-#Memory", "-#Tools", "-#Tokens", "-#Calls", "-#Errors", "-#p50", "-#p95", "-#p99", may_act ? "Actions" : "In state for"];
  fill(
    by_id("servers"),
    bodies.length === 0
      ? h("p", { class: "faint" }, wanted ? "No matching toolboxes or servers." : "No servers are configured.")
      : table("servers-head", heads, bodies, { class: "wide servers" }),
    hidden > 0 && h("p", { class: "faint" }, `${count(hidden, "more server")} not shown; use the filter to find them.`),
  );
}

function toolbox_row(toolbox, may_act) {
  return h(
    "tr",
    { class: "toolbox", "data-key": "toolbox" },
    h("th", { scope: "rowgroup", colspan: 2 }, toolbox.name),
    h("td", { class: "minor faint", colspan: 8 }, toolbox.description),
    h("td", { class: "acts" }, button("start", toolbox.name, null, may_act), button("stop", toolbox.name, null, may_act)),
  );
}

function state(server) {
  const wants = server.signIn && (server.signIn.isInProgress ? "signing in" : "sign-in required");
  const drifts = server.drift && (server.drift.action === "deny" ? "blocked" : server.state === "running" && "drift");
  const word = server.isPaused ? "paused" : wants || drifts || server.state;
  return h(
    "span",
    { class: `state ${server.isPaused ? "paused" : wants || drifts ? "starting" : server.state}`, title: STATES[word] },
    h("i", { "aria-hidden": "true" }),
    word,
  );
}

// Asks for a missing sign-in, with a link to the sign-in page once it is known.
function sign_in(toolbox, server) {
  const key = server_key(toolbox.name, server.name);
  if (!server.signIn) {
    pages.delete(key);
    return null;
  }
  const page = pages.get(key);
  const whose = server.signIn.account ? `agent ${server.signIn.account}` : "machine account";
  return h(
    "p",
    { class: "sign-in" },
    page && server.signIn.isInProgress
      ? [
          h("a", { href: page.address, target: "_blank", rel: "noopener noreferrer" }, `Open the sign-in page of ${server.name}`),
          page.code && [" and enter ", h("code", null, page.code)],
        ]
      : `${server.signIn.isInProgress ? "Sign-in in progress" : "Not signed in"} (${whose}).`,
  );
}

const EFFECTS = { warn: "not hidden from agents", quarantine: "hidden from agents", deny: "server blocked" };

// Lists the differences from `workbench.lock` and the command that accepts them.
function drift({ drift }) {
  return (
    drift && [
      h(
        "p",
        { class: "drift" },
        `${count(drift.count, "definition")} ${drift.count === 1 ? "differs" : "differ"} from workbench.lock (${EFFECTS[drift.action] ?? drift.action}).`,
        drift.accept && [" To accept: ", h("code", null, drift.accept)],
      ),
      h("ul", null, drift.differences.map((one) => h("li", null, one)), drift.differences.length > 0 && drift.count > drift.differences.length && h("li", null, "…")),
    ]
  );
}

function server_rows(view, toolbox, server, may_act) {
  const key = server_key(toolbox.name, server.name);
  const is_open = expanded.has(key);
  const { p50, p95, p99 } = server.latency ?? {};
  const since = server.since ? span(view.at - server.since) : "";
  const row = h(
    "tr",
    { "data-key": `row ${server.name}` },
    h(
      "th",
      { scope: "row" },
      h("button", { type: "button", class: "fold", "data-fold": key, "aria-expanded": String(is_open) }, server.name),
    ),
    h("td", null, state(server)),
    [bytes(server.memoryBytes), server.tools ?? "", server.tokens === null ? "" : number(server.tokens ?? 0), some(server.calls)].map((text) =>
      h("td", { class: "number minor" }, text),
    ),
    h("td", { class: server.errors > 0 ? "number minor bad" : "number minor" }, some(server.errors)),
    [p50, p95, p99].map((ms) => h("td", { class: "number minor" }, time(ms))),
    may_act
      ? h("td", { class: "acts" }, acts(server).map((act) => button(act, toolbox.name, server.name, may_act)))
      : h("td", null, since),
  );
  const says_why = server.drift || (server.state === "failed" && (server.reason || server.stderrTail.length > 0));
  if (!is_open && !says_why) {
    return [row];
  }
  return [
    row,
    h(
      "tr",
      { class: "detail", "data-key": `detail ${server.name}` },
      h(
        "td",
        { colspan: 11 },
        server.reason && h("p", { class: "bad" }, server.reason),
        sign_in(toolbox, server),
        drift(server),
        server.stderrTail.length > 0 && [
          h("p", { class: "faint" }, "Last lines of stderr:"),
          h("pre", { tabindex: "0", "aria-label": `Last lines of stderr of ${server.name}` }, server.stderrTail.join("\n")),
        ],
        is_open && facts(view, server, since),
        is_open &&
          h("p", null, h("button", { type: "button", "data-tools": key }, "Show tools")),
      ),
    ),
  ];
}

function facts(view, server, since) {
  const { p50, p95, p99 } = server.latency ?? {};
  const entries = [
    ["PID", server.pid ?? "none"],
    ["Since", server.since ? `${date(server.since)} (${since})` : "–"],
    ["Memory", bytes(server.memoryBytes) || "–"],
    ["Tools", server.tools ?? "not listed yet"],
    ["Tokens", server.tokens === null ? "–" : number(server.tokens)],
    ["Calls", `${number(server.calls)}, ${count(server.errors, "error")}`],
    ["p50, p95, p99 of its calls", server.latency ? [p50, p95, p99].map(time).join(", ") : "–"],
  ];
  return h("dl", { class: "facts" }, entries.map(([name, value]) => h("div", null, h("dt", { title: WORDS[name] }, name), h("dd", null, value))));
}

const is_bad = (outcome) => !["ok", "input_required", "cancelled", "shutting_down"].includes(outcome);

function draw_calls(view) {
  const rows = view.calls.slice(0, 100).flatMap((call) => call_rows(view, call));
  const heads = ["Started", "Outcome", "Tool", "-Server", "-Client", "-#Duration", "-#Arguments", "-#Result"];
  fill(
    by_id("calls"),
    rows.length === 0
      ? h("p", { class: "faint" }, "No calls yet.")
      : table("calls-head", heads, h("tbody", null, rows), { class: "wide calls" }),
  );
}

/** The row of a call, and one with the reason if it failed, or with everything if it is expanded. */
function call_rows(view, call) {
  const key = JSON.stringify(["call", view.pid, call.number]);
  const is_open = expanded.has(key);
  const name = is_bad(call.outcome) ? "bad" : null;
  const row = h(
    "tr",
    { "data-key": `row ${call.number}` },
    h("td", { class: "one-line" }, clock(call.at)),
    h("td", { class: name }, call.outcome.replaceAll("_", " ")),
    h("th", { scope: "row" }, h("button", { type: "button", class: "fold", "data-fold": key, "aria-expanded": String(is_open) }, call.tool)),
    h("td", { class: "minor" }, server_of(call)),
    h("td", { class: "minor" }, who(view, call)),
    h("td", { class: "number minor" }, time(call.ms)),
    h("td", { class: "number minor" }, bytes(call.argumentBytes)),
    h("td", { class: "number minor" }, bytes(call.resultBytes)),
  );
  if (!is_open && !call.reason) {
    return [row];
  }
  return [
    row,
    h(
      "tr",
      { class: "detail", "data-key": `detail ${call.number}` },
      h("td", { colspan: 8 }, is_open ? call_details(view, call) : h("p", { class: name ? "short bad" : "short" }, call.reason.split("\n", 1)[0])),
    ),
  ];
}

function call_details(view, call) {
  const entries = [
    ["Server", server_of(call) || "–"],
    ["Client", who(view, call)],
    ["Agent", call.agent ?? "–"],
    ["Started", date(call.at)],
    ["Duration", time(call.ms)],
    ["Arguments", bytes(call.argumentBytes)],
    ["Result", bytes(call.resultBytes) || "–"],
  ];
  return [
    call.reason && h("pre", { tabindex: "0", "aria-label": `Why the call of ${call.tool} failed` }, call.reason),
    h("dl", { class: "facts" }, entries.map(([name, value]) => h("div", null, h("dt", { title: WORDS[name] }, name), h("dd", null, value)))),
  ];
}

const server_of = (call) => [call.toolbox, call.server].filter(Boolean).join(" / ");

function who(view, call) {
  const agent = view.agents.find((agent) => agent.session === call.session);
  return agent?.client ? client_name(agent) : (call.client ?? call.agent ?? `session ${call.session}`);
}

function draw_agents(view) {
  const rows = view.agents.slice(0, 256).map((agent) =>
    h(
      "tr",
      { "data-key": agent.session },
      h("th", { scope: "row" }, client_name(agent)),
      h("td", { class: "minor" }, agent.name ?? ""),
      h("td", { class: "minor" }, date(agent.since)),
      h("td", { class: "number" }, number(agent.calls)),
      h("td", { class: "number" }, number(agent.savedTokens)),
    ),
  );
  const heads = ["Client", "-Agent", "-Connected since", "#Calls", "#Tokens saved"];
  fill(
    by_id("agents"),
    rows.length === 0
      ? h("p", { class: "faint" }, "No agents are connected.")
      : table("agents-head", heads, h("tbody", null, rows)),
  );
}
