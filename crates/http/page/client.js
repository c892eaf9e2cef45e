// HTTP client: server-sent events and requests. The token is stored only for this tab (`sessionStorage`) and
// sent in the `Authorization` header.

import { parse, write } from "./json.js";

const TOKEN_KEY = "mcp-workbench-token";
/** Maximum length of an incomplete event. */
const MAX_EVENT_CHARS = 64 * 1024 * 1024;
/** Reconnect backoff: it doubles from the first delay to the maximum. */
const MIN_RETRY_MS = 500;
const MAX_RETRY_MS = 8000;

/** Moves the token from the URL fragment, where `mcp-workbench dashboard` puts it, to `sessionStorage`. */
export function take_token() {
  const found = /^#token=([\w.~+/=-]+)$/.exec(location.hash);
  if (found) {
    sessionStorage.setItem(TOKEN_KEY, found[1]);
    history.replaceState(null, "", `${location.pathname}${location.search}`);
  }
}

export const token = () => sessionStorage.getItem(TOKEN_KEY);

export function keep_token(text) {
  if (text) {
    sessionStorage.setItem(TOKEN_KEY, text);
  } else {
    sessionStorage.removeItem(TOKEN_KEY);
  }
}

function headers(more) {
  const said = token();
  return said ? { ...more, Authorization: `Bearer ${said}` } : more;
}

async function error_message(response) {
  const text = (await response.text()).slice(0, 10_000);
  try {
    return JSON.parse(text).error.message;
  } catch {
    return `the workbench returned status ${response.status}`;
  }
}

/** A failed request, with the HTTP status if the server responded. */
export class FetchError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/**
 * Sends a request to a workbench. `args` is the JSON text of a call's arguments. Numbers that JavaScript can't
 * represent exactly arrive as `RawNumber`. `approval` is the call that the user approves, with the passphrase.
 */
export async function ask(workbench, what, args, approval) {
  const said = write(what);
  const question = args === undefined ? said : `${said.slice(0, -1)},"arguments":${args}}`;
  let response;
  try {
    response = await fetch("page/ask", {
      method: "POST",
      headers: headers({ "Content-Type": "application/json" }),
      body: `{"to":${JSON.stringify(workbench)},"ask":${question}${approval ? `,"approval":${JSON.stringify(approval)}` : ""}}`,
      cache: "no-store",
      credentials: "omit",
    });
  } catch {
    throw new FetchError("cannot reach the workbench");
  }
  if (!response.ok) {
    throw new FetchError(await error_message(response), response.status);
  }
  const answer = parse(await response.text());
  if (answer.answer === "error") {
    throw new FetchError(answer.message);
  }
  return answer;
}

/**
 * Subscribes to events until the page closes. Calls `on_view` for each event and `on_status` when the
 * connection changes. Returns a function that reconnects with the current token.
 */
export function subscribe(on_view, on_status) {
  let wait = MIN_RETRY_MS;
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
        throw new FetchError(await error_message(response), response.status);
      }
      await events(response, (event) => {
        if (event.isReplaced) {
          current = null;
          control.abort();
          on_status({ is_live: false, is_replaced: true, message: "a newer dashboard replaced this one, because too many were open (limits.perCaller.maxViewers)" });
          return;
        }
        wait = MIN_RETRY_MS;
        on_status({ is_live: true });
        on_view(event);
      });
      throw new FetchError("the workbench closed the connection");
    } catch (error) {
      if (control.signal.aborted) {
        return;
      }
      const is_denied = error.status === 401 || error.status === 403;
      const message = error instanceof FetchError ? error.message : "cannot reach the workbench";
      on_status({ is_live: false, is_denied, message });
      if (!is_denied) {
        setTimeout(() => current === control && begin(), wait);
        wait = Math.min(wait * 2, MAX_RETRY_MS);
      }
    }
  };
  begin();
  return () => {
    wait = MIN_RETRY_MS;
    begin();
  };
}

/** Reads server-sent events until the stream ends. */
async function events(response, on_event) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) {
      return;
    }
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    if (rest.length > MAX_EVENT_CHARS) {
      await reader.cancel();
      throw new FetchError("the workbench sent an event that is too large");
    }
    // Each event holds the full state, so only the last one matters.
    const last = parts.filter((part) => part.startsWith("data:")).pop();
    if (last) {
      on_event(parse(last.slice(5)));
    }
  }
}
