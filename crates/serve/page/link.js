// The link to the workbench: what is seen of it, as it comes, and what is asked of it. The token is kept
// for this tab alone, and goes along in a header.

import { parse, write } from "./json.js";

const KEPT = "mcp-workbench-token";
/** The most characters of an event that are waited for. */
const MOST = 64 * 1024 * 1024;
/** How long it is waited before a lost link is taken up again, at first and at most. */
const SOON = 500;
const LATEST = 8000;

/** Takes the token out of the address, where `mcp-workbench page` has put it. */
export function take_token() {
  const found = /^#token=([\w.~+/=-]+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(KEPT, found[1]);
    history.replaceState(null, "", `${location.pathname}${location.search}`);
  }
}

export const token = () => sessionStorage.getItem(KEPT);

export function keep_token(text) {
  if (text) {
    sessionStorage.setItem(KEPT, text);
  } else {
    sessionStorage.removeItem(KEPT);
  }
}

function headers(more) {
  const said = token();
  return said ? { ...more, Authorization: `Bearer ${said}` } : more;
}

async function why(response) {
  const text = (await response.text()).slice(0, 10_000);
  try {
    return JSON.parse(text).error.message;
  } catch {
    return `the answer was status ${response.status}`;
  }
}

/** What is not answered, with the status if there was one. */
export class Unanswered extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Asks a workbench for something; `args` is the JSON of a call's arguments. The answer keeps its numbers. */
export async function ask(workbench, what, args) {
  const said = write(what);
  const question = args === undefined ? said : `${said.slice(0, -1)},"arguments":${args}}`;
  let response;
  try {
    response = await fetch("page/ask", {
      method: "POST",
      headers: headers({ "Content-Type": "application/json" }),
      body: `{"to":${JSON.stringify(workbench)},"ask":${question}}`,
      cache: "no-store",
      credentials: "omit",
    });
  } catch {
    throw new Unanswered("the workbench cannot be reached");
  }
  if (!response.ok) {
    throw new Unanswered(await why(response), response.status);
  }
  const answer = parse(await response.text());
  if (answer.answer === "refused") {
    throw new Unanswered(answer.message);
  }
  return answer;
}

/**
 * Hears what is seen, for as long as the page is open: `seen` is called with it, `changed` when the link
 * comes and goes. Returns a function that begins anew, with the token as it is then.
 */
export function hear(seen, changed) {
  let wait = SOON;
  let current = null;
  const begin = async () => {
    const control = new AbortController();
    current?.abort();
    current = control;
    try {
      const response = await fetch("page/events", {
        headers: headers({ Accept: "text/event-stream" }),
        signal: control.signal,
        cache: "no-store",
        credentials: "omit",
      });
      if (!response.ok) {
        throw new Unanswered(await why(response), response.status);
      }
      await events(response, (event) => {
        wait = SOON;
        changed({ is_live: true });
        seen(event);
      });
      throw new Unanswered("the workbench has ended");
    } catch (error) {
      if (control.signal.aborted) {
        return;
      }
      const is_denied = error.status === 401 || error.status === 403;
      const message = error instanceof Unanswered ? error.message : "the workbench cannot be reached";
      changed({ is_live: false, is_denied, message });
      if (!is_denied) {
        setTimeout(() => current === control && begin(), wait);
        wait = Math.min(wait * 2, LATEST);
      }
    }
  };
  begin();
  return () => {
    wait = SOON;
    begin();
  };
}

/** Reads server-sent events to the end. */
async function events(response, hear_one) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) {
      return;
    }
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    if (rest.length > MOST) {
      await reader.cancel();
      throw new Unanswered("the workbench says too much at once");
    }
    // Of several that have come, the last says all.
    const last = parts.filter((part) => part.startsWith("data:")).pop();
    if (last) {
      hear_one(parse(last.slice(5)));
    }
  }
}
