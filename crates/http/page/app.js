// Entry point of the dashboard: application state, navigation, event handlers and dialogs.

import { by_id, fill, h } from "./dom.js";
import * as approvals from "./approvals.js";
import * as configuration from "./configuration.js";
import * as client from "./client.js";
import * as overview from "./overview.js";
import * as savings from "./savings.js";
import * as tools from "./tools.js";
import { bytes, clients, span } from "./format.js";
import { STATES, WORDS } from "./words.js";

const PARTS = ["overview", "savings", "tools", "configuration"];
const MESSAGE_MS = 8000;

const known = {
  part: "overview",
  /** The workbenches in the latest event, as `{id, view}`. */
  workbenches: [],
  /** The id of the selected workbench. */
  chosen: null,
  may_act: false,
  /** True if approvals need the passphrase of the approval key. */
  asks_passphrase: false,
  status: { is_live: false },
};

const current = () => known.workbenches.find(({ id }) => id === known.chosen) ?? null;

function ask(what, args, approval) {
  const workbench = current();
  if (!workbench) {
    return Promise.reject(new Error("no running workbench"));
  }
  return client.ask(workbench.id, what, args, approval).catch((error) => {
    if (error.status === 401) {
      ask_for_token(error.message);
    }
    throw error;
  });
}

let hide_timer = null;
function say(text, is_bad = false) {
  const said = by_id("said");
  said.textContent = text;
  said.className = is_bad ? "said shown bad" : "said shown";
  clearTimeout(hide_timer);
  hide_timer = setTimeout(() => (said.className = "said"), MESSAGE_MS);
}

// Drawing

let is_scheduled = false;
/** Schedules a redraw in the next frame, unless the tab is hidden. */
function draw_soon() {
  if (!is_scheduled && !document.hidden) {
    is_scheduled = true;
    requestAnimationFrame(() => {
      is_scheduled = false;
      draw();
    });
  }
}

function draw() {
  draw_head();
  const workbench = current();
  for (const part of PARTS) {
    by_id(`view-${part}`).hidden = part !== known.part || !workbench;
  }
  draw_notice(workbench);
  if (!workbench) {
    return;
  }
  const { view } = workbench;
  if (known.part === "overview") {
    overview.draw(view, known.may_act);
  } else if (known.part === "savings") {
    savings.draw(view);
  } else if (known.part === "tools") {
    calls.see(view, known.may_act);
  }
  fill(by_id("foot"), `MCP Workbench ${view.version}, PID ${view.pid}, up ${span(view.at - view.since)}`, view.memoryBytes ? `, ${bytes(view.memoryBytes)}` : "", `. ${view.config}`);
}

function draw_head() {
  const { is_live, message } = known.status;
  const workbench = current();
  fill(by_id("link"), h("span", { class: is_live ? "state running" : "state failed" }, h("i", { "aria-hidden": "true" }), is_live ? (known.may_act ? "live" : "live, read-only") : message ? "not connected" : "connecting"));
  by_id("token-button").hidden = false;
  fill(
    by_id("which"),
    known.workbenches.length > 1
      ? h(
          "label",
          null,
          h("span", { class: "unseen" }, "Workbench"),
          h("select", { id: "choose" }, known.workbenches.map(({ id, view }) => h("option", { "data-key": id, value: id }, label_of(view)))),
        )
      : workbench && label_of(workbench.view),
  );
  const choose = by_id("choose");
  if (choose && choose.value !== String(known.chosen)) {
    choose.value = String(known.chosen);
  }
  for (const anchor of document.querySelectorAll("nav a")) {
    if (anchor.hash === `#${known.part}`) {
      anchor.setAttribute("aria-current", "page");
    } else {
      anchor.removeAttribute("aria-current");
    }
  }
}

const label_of = (view) => `${clients(view)} · ${view.config || "no configuration"} · ${view.mode} · ${view.endpoint} · PID ${view.pid}`;

function draw_notice(workbench) {
  const { is_live, is_denied, is_replaced, message } = known.status;
  const texts = [];
  if (is_denied) {
    texts.push(h("p", { class: "notice" }, message, ". ", h("button", { type: "button", "data-token": true }, "Enter a token…")));
  } else if (is_replaced) {
    texts.push(h("p", { class: "notice" }, `Not connected: ${message}. `, h("button", { type: "button", "data-reconnect": true }, "Reconnect")));
  } else if (!is_live && message) {
    texts.push(h("p", { class: "notice" }, `Not connected: ${message}. Retrying…${workbench ? " Showing the last known state." : ""}`));
  } else if (is_live && !workbench) {
    texts.push(h("p", { class: "notice" }, "No running workbench (`--unlisted` ones are hidden). New ones appear automatically."));
  } else if (is_live && !known.may_act && client.token()) {
    texts.push(h("p", { class: "notice" }, "Read-only: the current token is not an operator token."));
  }
  fill(by_id("notice"), texts);
}

// Server events

function on_view({ mayAct, asksPassphrase, workbenches }) {
  const before = current();
  known.may_act = mayAct;
  known.asks_passphrase = asksPassphrase;
  known.workbenches = workbenches.map((view) => ({ id: view.pid, view }));
  if (!current()) {
    known.chosen = known.workbenches[0]?.id ?? null;
  }
  const after = current();
  if (before?.id !== after?.id) {
    calls.forget();
    load_part();
  } else if (before && after) {
    report_failures(before.view, after.view);
  }
  load_approvals();
  draw_soon();
}

/** Shows a message for each server that has failed since the last event. */
function report_failures(before, after) {
  const states = new Map(before.toolboxes.flatMap(({ name, servers }) => servers.map((server) => [overview.server_key(name, server.name), server.state])));
  for (const { name, servers } of after.toolboxes) {
    for (const server of servers) {
      const was = states.get(overview.server_key(name, server.name));
      if (server.state === "failed" && was && was !== "failed") {
        say(`${server.name} in ${name} failed`, true);
      }
    }
  }
}

function on_status(status) {
  known.status = status;
  if (status.is_denied && !by_id("token-dialog").open) {
    ask_for_token(status.message);
  }
  draw_soon();
}

// Views

function part_of_address() {
  const part = location.hash.slice(1);
  if (part === "main") {
    return;
  }
  known.part = PARTS.includes(part) ? part : "overview";
  document.title = `${by_id(`${known.part}-head`).textContent} · MCP Workbench`;
  load_part();
  draw_soon();
}

/** Loads the data that server events don't include. */
function load_part() {
  if (!current()) {
    return;
  }
  if (known.part === "savings") {
    load_unused();
  } else if (known.part === "configuration") {
    load_findings();
  }
}

async function load(what, where, draw_answer) {
  try {
    draw_answer(await ask(what));
  } catch (error) {
    fill(by_id(where), h("p", { class: "bad" }, error.message));
  }
}

const load_unused = () => load({ ask: "unused" }, "unused", savings.draw_unused);
const load_findings = () => load({ ask: "findings" }, "findings", configuration.draw);

async function search() {
  const query = by_id("query").value.trim();
  if (query === "") {
    fill(by_id("hits"));
    return;
  }
  await load({ ask: "search", query }, "hits", (answer) => by_id("query").value.trim() === query && tools.draw_hits(query, answer));
}

// Approvals

function load_approvals() {
  if (known.may_act && current()?.view.approvals > 0) {
    approvals.load(ask).catch((error) => say(error.message, true));
  } else {
    approvals.clear();
  }
}

async function answer(id, approve, approval) {
  try {
    await ask({ ask: "answer", id, approve }, undefined, approval);
    say(approve ? "approved" : "denied");
  } catch (error) {
    say(error.message, true);
  }
  load_approvals();
}

/** The call in the dialog. */
let approving = null;

function ask_approval(id) {
  approving = approvals.find(id);
  if (!approving) {
    return;
  }
  const { agent, toolbox, server, tool, arguments: given } = approving;
  by_id("passphrase-call").textContent = `${agent ?? "An agent without a name"}\n${toolbox} / ${server} / ${tool}\n${given}`;
  by_id("passphrase").value = "";
  by_id("passphrase-box").hidden = !known.asks_passphrase;
  by_id("passphrase-dialog").showModal();
}

// Actions

const DONE = { start: "started", stop: "stopped", restart: "restarted", pause: "paused", resume: "resumed" };

async function act(pressed) {
  const { act: what, toolbox } = pressed.dataset;
  const server = pressed.dataset.server ?? null;
  const key = overview.server_key(toolbox, server);
  if (overview.pending.has(key)) {
    return;
  }
  overview.pending.add(key);
  draw_soon();
  const whom = server === null ? toolbox : `${server} in ${toolbox}`;
  try {
    if (what === overview.SIGN_IN) {
      open_page(key, await ask({ ask: "signIn", toolbox, server }));
      say(`sign in to ${whom} in the new tab; the server starts afterwards`);
      return;
    }
    await ask({ ask: "act", act: what, toolbox, server });
    say(`${whom}: ${DONE[what]}`);
  } catch (error) {
    say(error.message, true);
  } finally {
    overview.pending.delete(key);
    draw_soon();
  }
}

// Opens the sign-in page in a new tab, without access to this one. The server's row also links to the page, in
// case the browser blocks the pop-up.
function open_page(key, { address, code }) {
  if (!/^https?:\/\//.test(address)) {
    throw new Error("the sign-in URL is not a web address");
  }
  overview.pages.set(key, { address, code });
  window.open(address, "_blank", "noopener,noreferrer");
}

function toggle(key) {
  if (!overview.expanded.delete(key)) {
    overview.expanded.add(key);
  }
  draw_soon();
}

async function lead_to(names) {
  if (known.part !== "tools") {
    location.hash = "#tools";
    part_of_address();
    draw();
  }
  await calls.lead_to(names);
  by_id("call-head").scrollIntoView({ block: "nearest" });
}

async function copy_patch() {
  try {
    await navigator.clipboard.writeText(by_id("patch").textContent);
    say("copied to the clipboard");
  } catch {
    getSelection().selectAllChildren(by_id("patch"));
    say("the clipboard is not available; the text is selected, copy it with the keyboard");
  }
}

// Dialogs

function ask_for_token(why) {
  by_id("token-why").textContent = why ?? (known.may_act ? "The current token is an operator token." : "With an operator token you can start, stop, restart and pause servers, and call tools. Create one with `mcp-workbench token --operator <name>`.");
  by_id("token").value = "";
  by_id("token-forget").hidden = !client.token();
  if (!by_id("token-dialog").open) {
    by_id("token-dialog").showModal();
  }
}

function use_token(text) {
  client.keep_token(text);
  by_id("token-dialog").close();
  known.status = { is_live: false };
  reconnect();
  draw_soon();
}

/** Resolves to `true` if the user confirms. */
function confirm(question) {
  const dialog = by_id("confirm-dialog");
  by_id("confirm-question").textContent = question;
  dialog.returnValue = "";
  dialog.showModal();
  by_id("confirm-no").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

// Startup

client.take_token();
fill(
  by_id("words"),
  [...Object.entries(WORDS), ...Object.entries(STATES)].map(([word, meaning]) => h("div", null, h("dt", null, word), h("dd", null, meaning))),
);
const calls = tools.caller(ask, confirm, say);
const reconnect = client.subscribe(on_view, on_status);

document.addEventListener("click", (event) => {
  const pressed = event.target.closest("button");
  if (!pressed) {
    return;
  }
  const { act: what, fold: key, tool, tools: of, token, reconnect: again, approve, deny } = pressed.dataset;
  if (approve) {
    ask_approval(approve);
  } else if (deny) {
    answer(deny, false);
  } else if (what) {
    act(pressed);
  } else if (key) {
    toggle(key);
  } else if (tool) {
    lead_to(JSON.parse(tool));
  } else if (of) {
    lead_to(JSON.parse(of));
  } else if (again !== undefined) {
    reconnect();
  } else if (token !== undefined || pressed.id === "token-button") {
    ask_for_token();
  } else if (pressed.id === "passphrase-cancel") {
    by_id("passphrase-dialog").close();
  } else if (pressed.id === "token-cancel") {
    by_id("token-dialog").close();
  } else if (pressed.id === "token-forget") {
    use_token(null);
  } else if (pressed.id === "confirm-no" || pressed.id === "confirm-yes") {
    by_id("confirm-dialog").close(pressed.id === "confirm-yes" ? "yes" : "no");
  } else if (pressed.id === "unused-again") {
    load_unused();
  } else if (pressed.id === "findings-again") {
    load_findings();
  } else if (pressed.id === "copy-patch") {
    copy_patch();
  }
});
document.addEventListener("change", (event) => {
  if (event.target.id === "choose") {
    known.chosen = known.workbenches.find(({ id }) => String(id) === event.target.value)?.id ?? null;
    calls.forget();
    approvals.clear();
    load_part();
    draw_soon();
  }
});
by_id("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = by_id("token").value.trim();
  if (text) {
    use_token(text);
  }
});
by_id("passphrase-form").addEventListener("submit", () => {
  const passphrase = by_id("passphrase").value;
  by_id("passphrase").value = "";
  answer(approving.id, true, known.asks_passphrase ? { call: approving, passphrase } : undefined);
});
by_id("search").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
by_id("filter").addEventListener("input", draw_soon);
document.addEventListener("visibilitychange", draw_soon);
addEventListener("hashchange", part_of_address);
part_of_address();
