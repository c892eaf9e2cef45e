"""Agents over HTTP: with sessions, without sessions (MCP 2026-07-28), and misbehaving ones."""

import http.client
import json
import math
import re
import socket
import threading
import time

from common import LEGACY, MODERN, PATIENCE, TOKENS, call, greeting, notice, request
from world import HEAD_MS

REST_OF_A_RESULT = re.compile(r"mcp-workbench://results/[^\"\s\\]+")


class Way:
    """Sequential requests of one agent on a persistent connection."""

    def __init__(self, port, token, headers=None):
        self.port, self.token, self.headers = port, token, headers or {}
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self.last_sent = time.monotonic()

    def send(self, method, message=None, more=None):
        """Sends a request; returns the response with its body unread."""
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        body = None if message is None else json.dumps(message)
        # Reconnect if the gateway may be about to close the idle connection.
        if time.monotonic() - self.last_sent > HEAD_MS / 2000:
            self.connection.close()
        self.last_sent = time.monotonic()
        self.connection.request(method, "/mcp", body, headers | self.headers | (more or {}))
        return self.connection.getresponse()

    def post(self, message, more=None):
        """Posts a message; returns the status and the messages of the response."""
        response = self.send("POST", message, more)
        return response.status, [message for _, message in messages(response)]

    def beside(self):
        """The same agent on another connection."""
        return Way(self.port, self.token, self.headers)

    def close(self):
        self.connection.close()


def messages(response, patience=PATIENCE):
    """Yields the messages of a response as they arrive, with their event ids."""
    end = time.monotonic() + patience
    if "event-stream" not in (response.getheader("Content-Type") or ""):
        body = response.read()
        if body.strip().startswith(b"{"):
            yield None, json.loads(body)
        return
    event = None
    for line in response:
        # Keep-alives reset the socket timeout, so check the deadline here.
        if time.monotonic() > end:
            raise TimeoutError(f"a stream did not end within {patience:.0f} s")
        if line.startswith(b"id:"):
            event = line[3:].strip().decode()
        elif line.startswith(b"data:") and line[5:].strip():
            yield event, json.loads(line[5:])


def is_answer(message):
    return "id" in message and "method" not in message


def sessions(soak, agent, rng):
    """Runs one agent's sessions sequentially."""
    while not soak.stopped.is_set():
        session = Session(soak, agent, rng)
        try:
            session.run()
        except (OSError, http.client.HTTPException, ValueError) as error:
            soak.tally.is_wrong(f"{agent}: session failed at {session.doing}: {error!r}")
            soak.stopped.wait(0.5)
        finally:
            session.way.close()


class Session:
    """A session that performs random actions, then is deleted or abandoned."""

    def __init__(self, soak, agent, rng):
        self.soak, self.agent, self.rng, self.tally = soak, agent, rng, soak.tally
        self.way = Way(soak.port, TOKENS[agent])
        self.asks_users = rng.random() < 0.3
        self.doing, self.number, self.has_opened = "initialize", 0, False

    def run(self):
        response = self.way.send("POST", request(0, "initialize", greeting(self.asks_users)))
        list(messages(response))
        if response.status != 200:
            return self.tally.is_wrong(f"{self.agent}: `initialize` returned status {response.status}")
        self.way.headers = {"Mcp-Session-Id": response.getheader("Mcp-Session-Id"), "MCP-Protocol-Version": LEGACY}
        self.way.post(notice("notifications/initialized"))
        self.tally.add("sessions")
        listener = Listener(self) if self.rng.random() < 0.4 else None
        acts = self.acts()
        for _ in range(self.rng.randrange(3, 60)):
            if self.soak.stopped.wait(self.rng.uniform(0, 0.03)):
                break
            act = self.rng.choice(acts)
            self.doing, self.number = act.__name__, self.number + 1
            act()
        self.doing = "the end"
        ending = self.rng.random()
        if ending < 0.6:
            self.way.send("DELETE").read()
            self.tally.add("deleted sessions")
        if listener:
            listener.leave(is_deleted=ending < 0.6)

    def acts(self):
        """The possible actions; repeated entries are more likely."""
        acts = [self.echoes] * 24 + [self.sleeps, self.is_given_much, self.hears_progress] * 2
        acts += [self.opens, self.lists, self.goes_wild, self.goes_wild, self.goes_wild]
        acts += [self.changes_lists, self.cancels, self.hangs_up, self.loses_a_stream]
        acts += [self.calls_a_real_server] if self.soak.real else []
        return acts + ([self.is_asked] * 3 if self.asks_users else [])

    def request(self, method, params):
        """Sends a request; returns its response, or `None` after recording a failure."""
        status, came = self.way.post(request(self.number, method, params))
        return self.one(status, came)

    def one(self, status, came):
        answers = [message for message in came if is_answer(message)]
        if status == 200 and [answer["id"] for answer in answers] == [self.number]:
            return answers[0]
        got = f"status {status}, expected one response to {self.number}: {str(came)[:300]}"
        self.tally.is_wrong(f"{self.agent}: {self.doing}: {got}")

    def call(self, path, arguments, sure=True):
        answer = self.request("tools/call", call(path, arguments))
        if answer:
            self.tally.answered(f"{self.agent}: {path}", sure, answer)
        return answer

    def echoes(self):
        said = {"n": self.rng.randrange(10**9)}
        if self.has_opened and self.rng.random() < 0.5:
            params = {"name": "calm__calm__echo", "arguments": said}
            answer = self.request("tools/call", params)
            if answer:
                self.tally.answered(f"{self.agent}: by registered name", True, answer)
        else:
            answer = self.call("calm/calm/echo", said)
        if answer and answer.get("result", {}).get("structuredContent") != said:
            self.tally.is_wrong(f"{self.agent}: sent {said}, received {str(answer)[:300]}")

    def sleeps(self):
        self.call("calm/calm/sleep", {"ms": self.rng.randrange(300)})

    def hears_progress(self):
        params = call("calm/calm/progress", {"count": 50}) | {"_meta": {"progressToken": self.number}}
        answer = self.request("tools/call", params)
        if answer:
            self.tally.answered(f"{self.agent}: progress", True, answer)

    def is_given_much(self):
        """Gets a truncated result, and sometimes more of its remainder."""
        answer = self.call("calm/calm/huge", {"bytes": self.rng.choice([50_000, 300_000])})
        rest = REST_OF_A_RESULT.search(json.dumps(answer))
        if rest and self.rng.random() < 0.5:
            self.number += 1
            self.request("resources/read", {"uri": rest[0]})

    def opens(self):
        params = {"name": "open_toolbox", "arguments": {"toolbox": self.rng.choice(["calm"] * 4 + ["wild", "real"])}}
        answer = self.request("tools/call", params)
        self.has_opened |= params["arguments"]["toolbox"] == "calm" and answer is not None
        self.tally.add("opened toolboxes")
        self.lists()

    def lists(self):
        self.number += 1
        self.request("tools/list", {})

    def goes_wild(self):
        path, arguments = self.rng.choice([
            ("wild/mortal/echo", {}),
            ("wild/mortal/crash", {}),
            ("wild/mortal/half", {}),
            ("wild/loud/echo", {}),
            ("wild/loud/storm", {"count": 100}),
            ("wild/loud/garbage", {"bytes": 3000}),
            ("wild/loud/twice", {}),
            ("wild/loud/ids", {}),
            ("wild/broken/echo", {}),
            ("wild/stubborn/echo", {}),
            ("wild/own/echo", {}),
            ("extra/extra/echo", {}),
            ("calm/calm/nothing", {}),
        ])
        self.call(path, arguments, sure=False)

    def changes_lists(self):
        tool = f"more{self.rng.randrange(9)}"
        self.call(f"calm/calm/{self.rng.choice(['grow', 'shrink'])}", {"tools": [tool]})
        self.lists()

    def calls_a_real_server(self):
        server = self.rng.choice(list(self.soak.real))
        tool, arguments = {
            "clock": ("get_current_time", {"timezone": "UTC"}),
            "everything": ("echo", {"message": "hello"}),
        }[server]
        self.call(f"real/{server}/{tool}", arguments)

    def cancels(self):
        """Cancels a running call, which may have at most one response."""
        cancelling = threading.Timer(self.rng.uniform(0, 0.2), self.cancel, [self.number])
        cancelling.start()
        params = call("calm/calm/sleep", {"ms": 15000})
        _, came = self.way.post(request(self.number, "tools/call", params))
        cancelling.join()
        self.tally.add("cancelled calls")
        if sum(map(is_answer, came)) > 1:
            self.tally.is_wrong(f"{self.agent}: several responses to a cancelled call: {str(came)[:300]}")

    def cancel(self, number):
        beside = self.way.beside()
        try:
            beside.post(notice("notifications/cancelled", {"requestId": number}))
        except (OSError, http.client.HTTPException) as error:
            self.tally.is_wrong(f"{self.agent}: cancellation failed: {error!r}")
        finally:
            beside.close()

    def hangs_up(self):
        """Drops the connection of a call before the response, and doesn't resume."""
        beside = self.way.beside()
        beside.connection.timeout = self.rng.uniform(0.01, 0.2)
        try:
            params = call("calm/calm/sleep", {"ms": 1500})
            beside.send("POST", request(self.number, "tools/call", params)).read()
        except (TimeoutError, OSError):
            pass
        beside.close()
        self.tally.add("disconnected calls")

    def loses_a_stream(self):
        """Drops the connection of a call during its progress, then resumes the stream."""
        params = call("calm/calm/sleep", {"ms": 400, "progressEveryMs": 50})
        params["_meta"] = {"progressToken": self.number}
        beside, came, last = self.way.beside(), [], None
        for last, message in messages(beside.send("POST", request(self.number, "tools/call", params))):
            came.append(message)
            break
        beside.close()
        if not any(map(is_answer, came)):
            self.doing = f"loses_a_stream, after {last} {came}"
            again = self.way.beside()
            response = again.send("GET", more={"Last-Event-ID": last or ""})
            came += [message for _, message in messages(response)]
            again.close()
        answer = self.one(200, came)
        if answer:
            self.tally.answered(f"{self.agent}: resumed stream", True, answer)
            self.tally.add("resumed streams")

    def is_asked(self):
        """Calls a tool that sends an elicitation; responds to it or ignores it."""
        ignores, asked, came = self.rng.random() < 0.2, 0, []
        form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
        params = call("wild/curious/ask", {"method": "elicitation/create", "params": form})
        for _, message in messages(self.way.send("POST", request(self.number, "tools/call", params))):
            if message.get("method") != "elicitation/create":
                came.append(message)
                continue
            asked += 1
            beside = self.way.beside()
            if ignores:
                beside.post(notice("notifications/cancelled", {"requestId": self.number}))
            else:
                said = {"action": "accept", "content": {}}
                beside.post({"jsonrpc": "2.0", "id": message["id"], "result": said})
            beside.close()
        self.tally.add("elicitations")
        if ignores and not any(map(is_answer, came)):
            return self.tally.add("cancelled calls")
        self.doing = f"is_asked, {asked} times"
        answer = self.one(200, came)
        if answer:
            self.tally.answered(f"{self.agent}: ask", False, answer)


class Listener:
    """Listens to the session's GET stream on a separate connection."""

    def __init__(self, session):
        self.session, self.way = session, session.way.beside()
        self.response = self.way.send("GET")
        # Save the socket: a response without a length takes it from the connection object.
        self.socket = self.way.connection.sock
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        try:
            for _, message in messages(self.response, patience=math.inf):
                self.session.tally.add("notifications")
                if is_answer(message):
                    self.session.tally.is_wrong(f"a response without a request: {str(message)[:300]}")
        except (OSError, http.client.HTTPException, ValueError):
            pass

    def leave(self, is_deleted):
        """Checks that deleting the session ended the stream, or else disconnects."""
        if is_deleted:
            self.thread.join(PATIENCE)
            if self.thread.is_alive():
                self.session.tally.is_wrong("the stream of a deleted session stayed open")
        if self.thread.is_alive() and self.socket:
            self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.way.close()


def modern(soak, agent, rng):
    """Runs an MCP 2026-07-28 agent: no session, and an occasional subscription stream."""
    way, number = Way(soak.port, TOKENS[agent]), 0
    while not soak.stopped.wait(rng.uniform(0, 0.05)):
        number += 1
        try:
            modern_act(soak, agent, rng, way, number)
        except (OSError, http.client.HTTPException, ValueError) as error:
            soak.tally.is_wrong(f"{agent}, MCP {MODERN}: {error!r}")
            way.close()
    way.close()


def modern_act(soak, agent, rng, way, number):
    abilities = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    act = rng.choices(["echo", "list", "hang up", "listen"], [20, 2, 2, 1])[0]
    method, params, name = {
        "echo": ("tools/call", call("calm/calm/echo", {"n": number}), "use_tool"),
        "list": ("tools/list", {}, None),
        "hang up": ("tools/call", call("calm/calm/sleep", {"ms": 15000}), "use_tool"),
        "listen": ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, None),
    }[act]
    message = request(number, method, params | {"_meta": abilities})
    more = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method} | ({"Mcp-Name": name} if name else {})
    if act in ("echo", "list"):
        status, came = way.post(message, more)
        answers = [message for message in came if is_answer(message)]
        if status != 200 or [answer["id"] for answer in answers] != [number]:
            soak.tally.is_wrong(f"{agent}, MCP {MODERN}: {act}: status {status}, {str(came)[:300]}")
        elif act == "echo":
            soak.tally.answered(f"{agent}, MCP {MODERN}", True, answers[0])
        return
    beside = way.beside()
    beside.connection.timeout = rng.uniform(0.02, 0.5)
    try:
        beside.send("POST", message, more).read()
    except (TimeoutError, OSError, http.client.HTTPException):
        pass
    beside.close()
    soak.tally.add("disconnected calls" if act == "hang up" else "disconnected streams")


def rude(soak, rng):
    """Sends invalid requests: wrong tokens, garbage, partial requests, another agent's session."""
    left = []
    while not soak.stopped.wait(rng.uniform(0, 0.2)):
        act = rng.choice([wrong_token, rubbish, another_session, half_head, half_body])
        try:
            left.append(act(soak, rng))
        except (OSError, http.client.HTTPException) as error:
            soak.tally.is_wrong(f"{act.__name__}: {error!r}")
        soak.tally.add("invalid requests")
        # Close some of the open partial requests; the gateway has to time out the others.
        while len(left) > 40:
            gone = left.pop(0)
            if gone:
                gone.close()
    for gone in left:
        if gone:
            gone.close()


def expect(soak, what, way, message, statuses):
    status, _ = way.post(message)
    way.close()
    if status not in statuses:
        soak.tally.is_wrong(f"{what} returned status {status}, expected {statuses}")


def wrong_token(soak, rng):
    expect(soak, "an invalid token", Way(soak.port, f"wrong-{rng.random()}"), request(1, "tools/list"), [401])


def rubbish(soak, rng):
    message = rng.choice([[], "rubbish", {"jsonrpc": "2.0"}, {"id": {}, "method": 7}, {"x": "y" * 1_000_000}])
    expect(soak, "rubbish", Way(soak.port, TOKENS["ben"]), message, [400])


def another_session(soak, rng):
    way = Way(soak.port, TOKENS["ann"])
    response = way.send("POST", request(0, "initialize", greeting()))
    list(messages(response))
    way.close()
    headers = {"Mcp-Session-Id": response.getheader("Mcp-Session-Id") or "none", "MCP-Protocol-Version": LEGACY}
    expect(soak, "another agent's session", Way(soak.port, TOKENS["ben"], headers), request(1, "tools/list"), [404])


def said(soak, text):
    stream = socket.create_connection(("127.0.0.1", soak.port), PATIENCE)
    stream.sendall(text.encode())
    return stream


def half_head(soak, rng):
    return said(soak, rng.choice(["", "POST /m", "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"]))


def half_body(soak, rng):
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKENS['ben']}\r\n"
    return said(soak, head + "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n" + "{" * rng.randrange(9999))
