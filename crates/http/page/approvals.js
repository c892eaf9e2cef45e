// Calls that wait for an approval: shows each in full, and sends the user's answer.

import { by_id, fill, h } from "./dom.js";
import { number, span } from "./format.js";

/** The calls as they are shown. An approval is for the call that was shown, so it isn't fetched again. */
let shown = [];

export const clear = () => {
  shown = [];
  draw();
};

/** Fetches the waiting calls. Calls that are shown already stay as they are. */
export async function load(ask) {
  const { calls } = await ask({ ask: "approvals" });
  const known = new Map(shown.map((call) => [call.id, call]));
  shown = calls.map((call) => known.get(call.id) ?? call);
  draw();
}

export const find = (id) => shown.find((call) => call.id === id);

function draw() {
  by_id("approvals-box").hidden = shown.length === 0;
  fill(by_id("approvals-count"), shown.length === 1 ? "A call waits for your approval" : `${number(shown.length)} calls wait for your approval`);
  fill(by_id("approvals"), shown.map(card));
}

function card(call) {
  const agent = call.agent ?? "An agent without a name";
  const left = Math.max(0, call.until - Date.now());
  return h(
    "div",
    { class: "notice", "data-key": call.id },
    h("p", null, h("strong", null, agent), call.client ? ` (${call.client})` : "", " wants to call ", h("strong", null, call.tool), ` of server ${call.server} in toolbox ${call.toolbox}, because ${call.reason}.`),
    h("pre", { tabindex: "0", "aria-label": "Arguments" }, call.arguments),
    h(
      "p",
      { class: "buttons" },
      h("button", { type: "button", "data-approve": call.id }, "Approve…"),
      h("button", { type: "button", "data-deny": call.id }, "Deny"),
      h("span", { class: "faint" }, ` denied in ${span(left)}`),
    ),
  );
}
