"""Runs a typical agent workload, to record a profile for profile-guided optimization.

`pgo.py PROGRAM` runs the workload; `pgo.py --server COUNT` is an MCP server with COUNT tools.
"""

import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REVISION = "2025-11-25"
GREETING = {
    "protocolVersion": REVISION,
    "capabilities": {},
    "clientInfo": {"name": "learner", "version": "1"},
}
# Calls by argument size, for each way of calling.
SIZES = {100: 4000, 10_000: 400, 1_000_000: 20}
AGENTS_OVER_HTTP = 8
CALLS_OVER_HTTP = 800


def message(method: str, params: dict, number: int | None = None) -> bytes:
    """A request, or a notification if `number` is None."""
    whole = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(whole if number is None else whole | {"id": number}).encode()


def serve(count: int) -> None:
    """Runs a stdio server with `count` echo tools."""
    text = {"type": "string", "description": "Text to be echoed"}
    schema = {"type": "object", "properties": {"text": text}}
    described = {"description": "Returns the text unchanged. " * 15, "inputSchema": schema}
    tools = [{"name": f"say_{number}"} | described for number in range(count)]
    abilities = {"protocolVersion": REVISION, "capabilities": {"tools": {"listChanged": True}}}
    greeting = abilities | {"serverInfo": {"name": "server", "version": "1"}}
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        match asked["method"]:
            case "initialize":
                result = greeting
            case "tools/list":
                result = {"tools": tools}
            case "tools/call":
                said = asked["params"].get("arguments", {}).get("text", "")
                result = {"content": [{"type": "text", "text": said}]}
            case _:
                result = {}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)


class Learning:
    """The instrumented executable, and a folder for its files."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program = program
        self.folder = folder

    def command(self, name: str, servers: int, tools: int, mode: str) -> list[str]:
        """The command that serves `servers` servers with `tools` tools each."""

        def entry(server: int) -> dict:
            args = [__file__, "--server", str(tools)]
            # Different environments keep the workbench from sharing one process.
            return {"command": sys.executable, "args": args, "env": {"NUMBER": str(server)}}

        toolbox = {
            "description": "Test tools",
            "mcpServers": {f"srv{server}": entry(server) for server in range(servers)},
        }
        config = {"toolMode": mode, "search": True, "toolboxes": {"box": toolbox}}
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(config))
        cache = str(self.folder / f"{name}.cache")
        return [self.program, "serve", "--config", str(file), "--cache-dir", cache]


class Agent:
    """An agent over stdio that follows changes to the tool list."""

    def __init__(self, command: list[str]) -> None:
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.number = 0
        self.ask("initialize", GREETING)
        self.send(message("notifications/initialized", {}))

    def send(self, line: bytes) -> None:
        self.child.stdin.write(line + b"\n")
        self.child.stdin.flush()

    def begin(self, method: str, params: dict) -> None:
        """Sends a request without waiting for the response."""
        self.number += 1
        self.send(message(method, params, self.number))

    def ask(self, method: str, params: dict, at_once: int = 1) -> None:
        """Sends a request `at_once` times and waits for all responses."""
        for _ in range(at_once):
            self.begin(method, params)
        left = at_once
        while left:
            line = self.child.stdout.readline()
            if not line:
                sys.exit("error: the program exited")
            if b"tools/list_changed" in line[:100]:
                self.begin("tools/list", {})
                left += 1
            if b'"error":' in line[:60] or b'"isError":true' in line[-200:]:
                sys.exit(f"error: {line[:500]!r}")
            left -= b'"id":' in line[:40]

    def end(self) -> None:
        """Disconnects. The executable writes its profile on exit."""
        self.child.stdin.close()
        self.child.wait()


def by_name(size: int) -> dict:
    """Parameters of a direct tool call."""
    arguments = {"text": "x" * size}
    return {"name": "box__srv0__say_1", "arguments": arguments, "_meta": {"progressToken": 1}}


def by_use_tool(size: int) -> dict:
    """Parameters of a call through `use_tool`."""
    tool = {"toolbox": "box", "server": "srv0", "tool": "say_1"}
    arguments = {"tool": tool, "arguments": {"text": "x" * size}}
    return {"name": "use_tool", "arguments": arguments}


OPEN = {"name": "open_toolbox", "arguments": {"toolbox": "box"}}


def call(learning: Learning) -> None:
    """Calls and searches with short and long messages, sequentially and concurrently."""
    agent = Agent(learning.command("few", 1, 20, "proxy"))
    agent.ask("tools/call", OPEN)
    for size, times in SIZES.items():
        for _ in range(times):
            agent.ask("tools/call", by_name(size))
            agent.ask("tools/call", by_use_tool(size))
    for _ in range(100):
        agent.ask("tools/call", by_name(100), at_once=16)
    for _ in range(20):
        for words in ("say it again", "tell me", "weather in a town"):
            arguments = {"queries": [words]}
            agent.ask("tools/call", {"name": "search_tools", "arguments": arguments})
    agent.end()


def open_all(learning: Learning) -> None:
    """Opens one large server and many small servers in each mode."""
    for mode in ("dynamic", "proxy", "direct", "search"):
        for servers, tools in ((1, 5000), (50, 100)):
            agent = Agent(learning.command(f"{mode}-{servers}", servers, tools, mode))
            if mode in ("dynamic", "proxy"):
                agent.ask("tools/call", OPEN)
            agent.ask("tools/list", {})
            agent.end()


def call_over_http(learning: Learning) -> None:
    """Calls from several agents concurrently."""
    command = learning.command("http", 1, 20, "proxy")
    program = subprocess.Popen(
        [*command, "--http", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    said = (re.search(rb"http://([\d.:]+)/mcp", line) for line in program.stderr)
    address = next(found[1].decode() for found in said if found)
    threading.Thread(target=program.stderr.read, daemon=True).start()
    with ThreadPoolExecutor(AGENTS_OVER_HTTP) as agents:
        # Raises the first agent's error.
        list(agents.map(agent_over_http, [address] * AGENTS_OVER_HTTP))
    program.terminate()
    program.wait()


def agent_over_http(address: str) -> None:
    """Starts a session and calls tools."""
    connection = http.client.HTTPConnection(address)
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }

    def ask(body: bytes) -> http.client.HTTPResponse:
        connection.request("POST", "/mcp", body, headers)
        answer = connection.getresponse()
        if b'"error":' in answer.read()[:60] or answer.status >= 400:
            sys.exit(f"error: {answer.status}")
        return answer

    session = ask(message("initialize", GREETING, 1)).headers["Mcp-Session-Id"]
    headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": REVISION}
    ask(message("notifications/initialized", {}))
    for number in range(2, CALLS_OVER_HTTP):
        ask(message("tools/call", by_name(100), number))


def main() -> None:
    if sys.argv[1] == "--server":
        serve(int(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        learning = Learning(sys.argv[1], Path(folder))
        call(learning)
        open_all(learning)
        call_over_http(learning)


main()
