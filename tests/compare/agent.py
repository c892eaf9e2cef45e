"""An MCP client over stdio that exposes the raw bytes."""

import http.client
import json
import os
import subprocess
import threading
import time


class Gone(Exception):
    """The gateway exited or timed out."""


class Agent:
    """An agent connected to a gateway process."""

    def __init__(self, command, env, folder):
        self.started = time.perf_counter()
        self.log = open(os.path.join(folder, "stderr.log"), "ab")
        self.process = subprocess.Popen(
            command, env=env, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log
        )
        self.last = 0
        self.answers = {}
        self.notified = []
        self.come = threading.Condition()
        self.is_over = False
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.take(line)
        with self.come:
            self.is_over = True
            self.come.notify_all()

    def take(self, line):
        try:
            message = json.loads(line)
        except ValueError:
            return
        with self.come:
            if "method" in message and "id" in message:
                # Reject all server requests: roots, sampling, elicitation.
                error = {"code": -32601, "message": "not offered"}
                self.send({"jsonrpc": "2.0", "id": message["id"], "error": error})
            elif "method" in message:
                self.notified.append(message["method"])
                if message["method"] == "notifications/tools/list_changed":
                    # Like most clients, list again immediately, in parallel with other requests.
                    again = f"again-{len(self.notified)}"
                    self.send({"jsonrpc": "2.0", "id": again, "method": "tools/list", "params": {}})
            elif "id" in message:
                self.answers[message["id"]] = line
            self.come.notify_all()

    def send(self, message):
        self.send_line(json.dumps(message))

    def send_line(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Gone(str(error)) from error

    def raw(self, method, params, patience=60):
        """Sends a request; `params` may be JSON text. Returns the raw response line."""
        self.last += 1
        own = self.last
        text = params if isinstance(params, str) else json.dumps(params)
        head = '{"jsonrpc":"2.0","id":%d,"method":%s,"params":' % (own, json.dumps(method))
        self.send_line(head + text + "}")
        with self.come:
            self.come.wait_for(lambda: own in self.answers or self.is_over, patience)
            if own not in self.answers:
                raise Gone("the gateway exited" if self.is_over else f"no response to {method} within {patience} s")
            return self.answers.pop(own).decode()

    def ask(self, method, params, patience=60):
        answer = json.loads(self.raw(method, params, patience))
        if "error" in answer:
            raise Gone(f"{method}: {answer['error'].get('message')}")
        return answer["result"]

    def begin(self, patience=120):
        """Initializes the session; returns the server instructions."""
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "compare", "version": "1"},
        }
        result = self.ask("initialize", about, patience)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result.get("instructions") or ""

    def tools(self, patience=120):
        return self.ask("tools/list", {}, patience)["tools"]

    def end(self):
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class OverSse(Agent):
    """An agent for a gateway with the deprecated HTTP+SSE transport, on the port after `--port`."""

    def __init__(self, command, env, folder):
        self.port = int(command[command.index("--port") + 1])
        self.place = None
        self.posting = threading.Lock()
        super().__init__(command, env, folder)

    def read(self):
        while self.process.poll() is None:
            try:
                events = http.client.HTTPConnection("127.0.0.1", self.port)
                events.request("GET", "/mcp", headers={"Accept": "text/event-stream"})
                stream = events.getresponse()
            except OSError:
                time.sleep(0.02)
                continue
            if stream.status == 200:
                break
            time.sleep(0.02)
        else:
            return
        self.posts = http.client.HTTPConnection("127.0.0.1", self.port)
        kind, data = "", []
        while line := stream.readline():
            line = line.rstrip(b"\r\n")
            if line.startswith(b"event:"):
                kind = line[6:].strip().decode()
            elif line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line and kind == "endpoint":
                with self.come:
                    self.place = b"".join(data).decode()
                    self.come.notify_all()
                kind, data = "", []
            elif not line:
                self.take(b"\n".join(data))
                kind, data = "", []
        with self.come:
            self.is_over = True
            self.come.notify_all()

    def send_line(self, line):
        with self.come:
            if not self.come.wait_for(lambda: self.place or self.is_over, 60) or not self.place:
                raise Gone("nothing listens")
        for is_last in (False, True):
            try:
                with self.posting:
                    self.posts.request("POST", self.place, line.encode(), {"Content-Type": "application/json"})
                    self.posts.getresponse().read()
                return
            except (OSError, http.client.HTTPException) as error:
                # The gateway closes connections that are idle for some seconds.
                self.posts.close()
                if is_last:
                    raise Gone(str(error)) from error

    def end(self):
        self.process.terminate()
        super().end()
