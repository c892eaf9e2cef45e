// The tools view: search as an agent would, and call a tool.

import { by_id, fill, h, table } from "./dom.js";
import { arguments_form, FieldError } from "./form.js";
import { write, RawNumber } from "./json.js";
import { bar } from "./charts.js";
import { bytes, count, number, time } from "./format.js";

/** Display limits for a result: its content blocks, and the characters of each block. */
const MAX_PARTS = 100;
const MAX_TEXT = 1_000_000;
/** Longer text is collapsed. */
const FOLD_CHARS = 1500;
const FOLD_LINES = 24;
const MAX_IMAGE = 15_000_000;
const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

export function draw_hits(query, answer) {
  if (answer.hits.length === 0) {
    fill(by_id("hits"), h("p", null, "No tool matches ", h("q", null, query), "."));
    return;
  }
  const rows = answer.hits.slice(0, 100).map((hit, index) =>
    h(
      "tr",
      null,
      h("td", { class: "number" }, index + 1),
      h("th", { scope: "row" }, h("button", { type: "button", class: "fold plain", "data-tool": JSON.stringify([hit.toolbox, hit.server, hit.tool]) }, hit.tool), h("p", { class: "faint" }, hit.description)),
      h("td", { class: "one-line" }, `${hit.toolbox} / ${hit.server}`),
      h("td", { class: "number" }, hit.score.toFixed(2)),
      h("td", { class: "plot" }, bar(hit.score, 1)),
      h("td", null, h("span", { class: hit.isLikely ? "good" : "faint" }, hit.isLikely ? "likely" : "unsure")),
      h("td", null, hit.words.flatMap((word) => [h("mark", null, word), " "])),
    ),
  );
  fill(
    by_id("hits"),
    h("p", { class: "faint", id: "hits-head" }, `${count(answer.hits.length, "tool")} for “${query}”. Select a tool to call it below.`),
    table("hits-head", ["#Rank", "Tool", "Server", "#Score", "", "Match", "Matched words"], h("tbody", null, rows)),
  );
}

/** Builds the call form. `ask` sends a request to the selected workbench. */
export function caller(ask, confirm, say) {
  const toolbox = h("select", { id: "call-toolbox" });
  const server = h("select", { id: "call-server" });
  const tool = h("select", { id: "call-tool" });
  const about = h("div", { id: "call-about" });
  const answered = h("div", { id: "answer", "aria-live": "polite" });
  const run = h("button", { type: "submit", class: "main" }, "Call tool");
  const forbidden = h("p", { class: "faint" });
  const form = h("form", { id: "call-form", novalidate: true }, about, h("p", { class: "buttons" }, run, forbidden));
  const choose = (label, control) => h("div", { class: "field" }, h("label", { for: control.id }, label), control);
  by_id("call").append(
    h("div", { class: "chosen" }, choose("Toolbox", toolbox), choose("Server", server), choose("Tool", tool)),
    form,
    answered,
  );
  let view = null;
  let known = [];
  let current = null;
  let asked = 0;

  const options = (control, names, wanted) => {
    const before = wanted ?? control.value;
    control.replaceChildren(h("option", { value: "" }, "select…"), ...names.map((name) => h("option", { value: name }, name)));
    control.value = names.includes(before) ? before : "";
  };
  const servers = () => view?.toolboxes.find(({ name }) => name === toolbox.value)?.servers ?? [];

  const show_tool = () => {
    current = null;
    about.replaceChildren();
    answered.replaceChildren();
    run.hidden = true;
    const found = known.find(({ name }) => name === tool.value);
    if (!found) {
      return;
    }
    const input = arguments_form(found.inputSchema);
    current = { name: found.name, input };
    run.hidden = false;
    about.append(
      h(
        "div",
        { class: "about" },
        h("p", { class: "description" }, found.description || "No description."),
        h("p", { class: "faint" }, `Definition: ${count(found.tokens, "token")}`, found.isDangerous && [" · ", h("span", { class: "bad" }, "dangerous")]),
      ),
      input.element,
      h("details", null, h("summary", null, "Schema"), h("pre", { tabindex: "0", "aria-label": "Argument schema" }, write(found.inputSchema, "  ").slice(0, MAX_TEXT))),
    );
  };

  const list_tools = async (wanted) => {
    known = [];
    options(tool, []);
    show_tool();
    if (!toolbox.value || !server.value) {
      return;
    }
    const mine = (asked += 1);
    about.replaceChildren(h("p", { class: "faint" }, "Loading tools…"));
    try {
      const answer = await ask({ ask: "tools", toolbox: toolbox.value, server: server.value });
      if (mine !== asked) {
        return;
      }
      known = answer.tools;
      options(tool, known.map(({ name }) => name), wanted);
      show_tool();
      if (answer.omitted > 0) {
        about.prepend(h("p", { class: "faint" }, `${count(answer.omitted, "more tool")} not listed: there are too many.`));
      }
      if (known.length === 0) {
        about.replaceChildren(h("p", { class: "faint" }, "No tools. If the server has never run, start it first."));
      }
    } catch (error) {
      if (mine === asked) {
        about.replaceChildren(h("p", { class: "bad" }, error.message));
      }
    }
  };

  toolbox.addEventListener("change", () => {
    options(server, servers().map(({ name }) => name));
    list_tools();
  });
  server.addEventListener("change", () => list_tools());
  tool.addEventListener("change", show_tool);

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!current || run.getAttribute("aria-disabled") === "true") {
      return;
    }
    let args;
    try {
      args = current.input.text();
    } catch (error) {
      const where = error instanceof FieldError ? error.field : null;
      where?.setAttribute("aria-invalid", "true");
      where?.focus();
      answered.replaceChildren(h("p", { class: "bad" }, error.message));
      return;
    }
    const call = { ask: "call", toolbox: toolbox.value, server: server.value, tool: current.name };
    run.setAttribute("aria-disabled", "true");
    answered.replaceChildren(h("p", { class: "faint" }, "Waiting for the result…"));
    try {
      let answer = await ask(call, args);
      // A macro asks again for each of its steps that needs a confirmation.
      while (answer.answer === "confirm") {
        if (!(await confirm(answer.question))) {
          answered.replaceChildren(h("p", null, "The call was not confirmed."));
          return;
        }
        answer = await ask({ ...call, confirmed: answer.id }, args);
      }
      answered.replaceChildren(...result(answer));
      say(`${call.tool}: result received`);
    } catch (error) {
      answered.replaceChildren(h("p", { class: "bad" }, error.message));
    } finally {
      run.removeAttribute("aria-disabled");
    }
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  show_tool();

  return {
    /** Updates the choices, and disables calls without an operator's token. */
    see(next, may_act) {
      const names = (of) => JSON.stringify(of?.toolboxes.map(({ name, servers }) => [name, servers.map((one) => one.name)]));
      const is_other = names(next) !== names(view);
      view = next;
      if (is_other) {
        options(toolbox, view.toolboxes.map(({ name }) => name));
        options(server, servers().map(({ name }) => name));
      }
      run.disabled = !may_act;
      forbidden.textContent = may_act ? "Access rules and confirmations apply as for an agent." : "Read-only: calling tools requires an operator token.";
    },
    /** Selects a server, or one of its tools: `[toolbox, server, tool]`. */
    async lead_to(names) {
      toolbox.value = names[0];
      options(server, servers().map(({ name }) => name), names[1]);
      await list_tools(names[2]);
      (current ? form.querySelector("input, select, textarea, button") : tool).focus();
    },
    forget() {
      view = null;
      known = [];
      options(toolbox, []);
      options(server, []);
      options(tool, []);
      show_tool();
    },
  };
}

function result(answer) {
  const head = (said, bad) => h("p", { class: bad ? "bad" : "good" }, said, h("span", { class: "faint" }, ` after ${time(number_of(answer.ms))}`));
  if (answer.error) {
    return [head("The server returned an error", true), text_block(write(answer.error, "  "), "Error")];
  }
  const given = answer.result ?? {};
  const content = Array.isArray(given.content) ? given.content : [];
  const parts = content.slice(0, MAX_PARTS).map(part_of);
  const { content: _, structuredContent, isError, ...rest } = given;
  return [
    head(isError === true ? "The tool reported an error" : "Success", isError === true),
    ...parts,
    content.length > MAX_PARTS && h("p", { class: "faint" }, `${count(content.length - MAX_PARTS, "more content block")} not shown.`),
    structuredContent !== undefined && h("div", null, h("h4", null, "Structured content"), text_block(write(structuredContent, "  "), "Structured content")),
    Object.keys(rest).length > 0 && h("div", null, h("h4", null, "Other members"), text_block(write(rest, "  "), "Other members")),
  ].filter(Boolean);
}

const number_of = (value) => (value instanceof RawNumber ? Number(value.text) : value);

function part_of(part) {
  if (part?.type === "text" && typeof part.text === "string") {
    return text_block(part.text, "Text");
  }
  if (part?.type === "image" && IMAGES.has(part.mimeType) && typeof part.data === "string" && part.data.length <= MAX_IMAGE && /^[\w+/=-]*$/.test(part.data)) {
    return h("img", { src: `data:${part.mimeType};base64,${part.data}`, alt: `Image in the result, ${part.mimeType}`, class: "answer" });
  }
  return text_block(write(part, "  "), "Content block");
}

function text_block(text, label) {
  const block = h("pre", { tabindex: "0", role: "region", "aria-label": label }, text.slice(0, MAX_TEXT), text.length > MAX_TEXT && "…");
  const lines = text.split("\n", FOLD_LINES + 1).length;
  if (text.length <= FOLD_CHARS && lines <= FOLD_LINES) {
    return block;
  }
  const first = text.slice(0, 120).split("\n")[0];
  return h("details", null, h("summary", null, `${label}, ${bytes(text.length)}: `, h("code", null, first), "…"), block);
}

