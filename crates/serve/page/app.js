// The page: which part is shown, of which workbench, and what is asked of it.

import { at, fill, h } from "./dom.js";
import * as configuration from "./configuration.js";
import * as link from "./link.js";
import * as now from "./now.js";
import * as savings from "./savings.js";
import * as tools from "./tools.js";
import { bytes, span } from "./words.js";

const PARTS = ["now", "savings", "tools", "configuration"];
/** How long a message stays. */
const SAID = 8000;

/** All that is known here. */
const known = {
  part: "now",
  /** The workbenches that were seen last, as `{id, view}`. */
  workbenches: [],
  /** The one that is looked at. */
  chosen: null,
  may_act: false,
  status: { is_live: false },
};

const current = () => known.workbenches.find(({ id }) => id === known.chosen) ?? null;

function ask(what, args) {
  const workbench = current();
  if (!workbench) {
    return Promise.reject(new Error("no workbench is serving now"));
  }
  return link.ask(workbench.id, what, args).catch((error) => {
    if (error.status === 401) {
      ask_for_token(error.message);
    }
    throw error;
  });
}

let silence = null;
function say(text, is_bad = false) {
  const said = at("said");
  said.textContent = text;
  said.className = is_bad ? "said shown bad" : "said shown";
  clearTimeout(silence);
  silence = setTimeout(() => (said.className = "said"), SAID);
}

// Drawing

let is_asked = false;
/** Draws soon, once for all that has changed, and not while nobody looks. */
function draw_soon() {
  if (!is_asked && !document.hidden) {
    is_asked = true;
    requestAnimationFrame(() => {
      is_asked = false;
      draw();
    });
  }
}

function draw() {
  draw_head();
  const workbench = current();
  for (const part of PARTS) {
    at(`view-${part}`).hidden = part !== known.part || !workbench;
  }
  draw_notice(workbench);
  if (!workbench) {
    return;
  }
  const { view } = workbench;
  if (known.part === "now") {
    now.draw(view, known.may_act);
  } else if (known.part === "savings") {
    savings.draw(view);
  } else if (known.part === "tools") {
    calls.see(view, known.may_act);
  }
  fill(at("foot"), `MCP Workbench ${view.version}, process ${view.pid}, for ${span(view.at - view.since)}`, view.memoryBytes ? `, ${bytes(view.memoryBytes)}` : "", `. ${view.config}`);
}

function draw_head() {
  const { is_live, message } = known.status;
  const workbench = current();
  fill(at("link"), h("span", { class: is_live ? "state running" : "state failed" }, h("i", { "aria-hidden": "true" }), is_live ? (known.may_act ? "live" : "live, looking only") : message ? "not connected" : "connecting"));
  at("token-button").hidden = false;
  fill(
    at("which"),
    known.workbenches.length > 1
      ? h(
          "label",
          null,
          h("span", { class: "unseen" }, "Workbench"),
          h("select", { id: "choose" }, known.workbenches.map(({ id, view }) => h("option", { "data-key": id, value: id }, said_of(view)))),
        )
      : workbench && said_of(workbench.view),
  );
  const choose = at("choose");
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

const said_of = (view) => `${view.config || "no configuration"} · ${view.mode} · ${view.reached} · ${view.pid}`;

function draw_notice(workbench) {
  const { is_live, is_denied, message } = known.status;
  const texts = [];
  if (is_denied) {
    texts.push(h("p", { class: "notice" }, message, ". ", h("button", { type: "button", "data-token": true }, "Enter a token…")));
  } else if (!is_live && message) {
    texts.push(h("p", { class: "notice" }, `Not connected: ${message}. It is tried again${workbench ? "; this is what was seen last" : ""}.`));
  } else if (is_live && !workbench) {
    texts.push(h("p", { class: "notice" }, "No workbench is serving now. One that begins is shown here."));
  } else if (is_live && !known.may_act && link.token()) {
    texts.push(h("p", { class: "notice" }, "The token in use lets you look, and is not an operator's."));
  }
  fill(at("notice"), texts);
}

// What comes

function seen({ mayAct, workbenches }) {
  const before = current();
  known.may_act = mayAct;
  known.workbenches = workbenches.map((view) => ({ id: view.pid, view }));
  if (!current()) {
    known.chosen = known.workbenches[0]?.id ?? null;
  }
  const after = current();
  if (before?.id !== after?.id) {
    calls.forget();
    shown();
  } else if (before && after) {
    tell_failures(before.view, after.view);
  }
  draw_soon();
}

/** Says which servers have failed since. */
function tell_failures(before, after) {
  const states = new Map(before.toolboxes.flatMap(({ name, servers }) => servers.map((server) => [now.place(name, server.name), server.state])));
  for (const { name, servers } of after.toolboxes) {
    for (const server of servers) {
      const was = states.get(now.place(name, server.name));
      if (server.state === "failed" && was && was !== "failed") {
        say(`${server.name} in ${name} has failed`, true);
      }
    }
  }
}

function changed(status) {
  known.status = status;
  if (status.is_denied && !at("token-dialog").open) {
    ask_for_token(status.message);
  }
  draw_soon();
}

// Parts of the page

function part_of_address() {
  const part = location.hash.slice(1);
  if (part === "main") {
    return;
  }
  known.part = PARTS.includes(part) ? part : "now";
  document.title = `${at(`${known.part}-head`).textContent} · MCP Workbench`;
  shown();
  draw_soon();
}

/** Asks for what a part shows that does not come by itself. */
function shown() {
  if (!current()) {
    return;
  }
  if (known.part === "savings") {
    look_for_unused();
  } else if (known.part === "configuration") {
    look_for_findings();
  }
}

async function look(what, where, draw_answer) {
  try {
    draw_answer(await ask(what));
  } catch (error) {
    fill(at(where), h("p", { class: "bad" }, error.message));
  }
}

const look_for_unused = () => look({ ask: "unused" }, "unused", savings.draw_unused);
const look_for_findings = () => look({ ask: "findings" }, "findings", configuration.draw);

async function search() {
  const query = at("query").value.trim();
  if (query === "") {
    fill(at("hits"));
    return;
  }
  await look({ ask: "search", query }, "hits", (answer) => at("query").value.trim() === query && tools.draw_hits(query, answer));
}

// Acts

const DONE = { open: "is open", stop: "has been stopped", restart: "has been restarted", mute: "is muted", unmute: "is not muted any more" };

async function act(pressed) {
  const { act: what, toolbox } = pressed.dataset;
  const server = pressed.dataset.server ?? null;
  const place = now.place(toolbox, server);
  if (now.pending.has(place)) {
    return;
  }
  now.pending.add(place);
  draw_soon();
  const whom = server === null ? toolbox : `${server} in ${toolbox}`;
  try {
    if (what === now.SIGN_IN) {
      open_page(place, await ask({ ask: "signIn", toolbox, server }));
      say(`sign in at ${whom} in the other tab; it starts when that is done`);
      return;
    }
    await ask({ ask: "act", act: what, toolbox, server });
    say(`${whom} ${DONE[what]}`);
  } catch (error) {
    say(error.message, true);
  } finally {
    now.pending.delete(place);
    draw_soon();
  }
}

// Opens a page to sign in in a tab of its own, which knows nothing of this one. Browsers may keep it from opening,
// so there is a link, too.
function open_page(place, { address, code }) {
  if (!/^https?:\/\//.test(address)) {
    throw new Error("the address to sign in at is no web page");
  }
  now.pages.set(place, { address, code });
  window.open(address, "_blank", "noopener,noreferrer");
}

function fold(key) {
  if (!now.unfolded.delete(key)) {
    now.unfolded.add(key);
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
  at("call-head").scrollIntoView({ block: "nearest" });
}

async function copy_patch() {
  try {
    await navigator.clipboard.writeText(at("patch").textContent);
    say("copied");
  } catch {
    getSelection().selectAllChildren(at("patch"));
    say("selected: copy it with your keyboard");
  }
}

// Dialogs

function ask_for_token(why) {
  at("token-why").textContent = why ?? (known.may_act ? "The one in use lets you look and act." : "With the token of an operator you can open, stop, restart and mute servers, and call tools. `mcp-workbench token --operator` makes one.");
  at("token").value = "";
  at("token-forget").hidden = !link.token();
  if (!at("token-dialog").open) {
    at("token-dialog").showModal();
  }
}

function use_token(text) {
  link.keep_token(text);
  at("token-dialog").close();
  known.status = { is_live: false };
  begin_again();
  draw_soon();
}

/** Asks the user a question. Resolves to `true` if it is agreed to. */
function confirm(question) {
  const dialog = at("confirm-dialog");
  at("confirm-question").textContent = question;
  dialog.returnValue = "";
  dialog.showModal();
  at("confirm-no").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

// Beginning

link.take_token();
const calls = tools.caller(ask, confirm, say);
const begin_again = link.hear(seen, changed);

document.addEventListener("click", (event) => {
  const pressed = event.target.closest("button");
  if (!pressed) {
    return;
  }
  const { act: what, fold: key, tool, tools: of, token } = pressed.dataset;
  if (what) {
    act(pressed);
  } else if (key) {
    fold(key);
  } else if (tool) {
    lead_to(JSON.parse(tool));
  } else if (of) {
    lead_to(JSON.parse(of));
  } else if (token !== undefined || pressed.id === "token-button") {
    ask_for_token();
  } else if (pressed.id === "token-cancel") {
    at("token-dialog").close();
  } else if (pressed.id === "token-forget") {
    use_token(null);
  } else if (pressed.id === "confirm-no" || pressed.id === "confirm-yes") {
    at("confirm-dialog").close(pressed.id === "confirm-yes" ? "yes" : "no");
  } else if (pressed.id === "unused-again") {
    look_for_unused();
  } else if (pressed.id === "findings-again") {
    look_for_findings();
  } else if (pressed.id === "copy-patch") {
    copy_patch();
  }
});
document.addEventListener("change", (event) => {
  if (event.target.id === "choose") {
    known.chosen = known.workbenches.find(({ id }) => String(id) === event.target.value)?.id ?? null;
    calls.forget();
    shown();
    draw_soon();
  }
});
at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = at("token").value.trim();
  if (text) {
    use_token(text);
  }
});
at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
at("filter").addEventListener("input", draw_soon);
document.addEventListener("visibilitychange", draw_soon);
addEventListener("hashchange", part_of_address);
part_of_address();
