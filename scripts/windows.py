#!/usr/bin/env python3
"""Measures the cost of several client windows: processes, memory, and time to the first response.

    scripts/windows.py [--program PATH] [--windows 1,3,6] [--rounds 3]

Runs three servers from .test-env (filesystem, memory, everything) in four setups: each window starts its own
servers; each window starts a workbench over stdio; all windows use one workbench over HTTP; the same through
`connect`. Time to the first response runs from the start of the last window, with the others connected, until
one tool of each server has responded. Memory is the proportional set size (PSS) of all processes, which counts
shared pages once. Needs Linux.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".test-env/agents/node_modules/.bin"
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "windows", "version": "1"},
}


def servers(folder):
    return {
        "filesystem": {"command": str(BIN / "mcp-server-filesystem"), "args": [folder]},
        "memory": {
            "command": str(BIN / "mcp-server-memory"),
            "args": [],
            "env": {"MEMORY_FILE_PATH": f"{folder}/memory.json"},
        },
        "everything": {"command": str(BIN / "mcp-server-everything"), "args": ["stdio"]},
    }


CALLS = {
    "filesystem": ("list_allowed_directories", {}),
    "memory": ("read_graph", {}),
    "everything": ("echo", {"message": "hello"}),
}


class Stdio:
    """A client over stdio."""

    def __init__(self, words, env):
        self.child = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
        )
        self.id = 0

    def tell(self, message):
        self.child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.child.stdin.flush()

    def ask(self, method, params):
        self.id += 1
        self.tell({"id": self.id, "method": method, "params": params})
        while True:
            line = self.child.stdout.readline()
            if not line:
                sys.exit(f"{method}: the program exited")
            message = json.loads(line)
            if message.get("id") == self.id and "method" not in message:
                return message
            if "method" in message and "id" in message:
                self.tell({"id": message["id"], "result": {}})

    def begin(self):
        self.ask("initialize", INITIALIZE)
        self.tell({"method": "notifications/initialized"})

    def close(self):
        self.child.stdin.close()
        self.child.wait(10)

    def roots(self):
        return [self.child.pid]


class Http:
    """A client over HTTP."""

    def __init__(self, url, token):
        self.url, self.token, self.session, self.id = url, token, None, 0

    def post(self, message):
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {self.token}",
        }
        if self.session:
            headers["Mcp-Session-Id"] = self.session
            headers["MCP-Protocol-Version"] = INITIALIZE["protocolVersion"]
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        request = urllib.request.Request(self.url, body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            self.session = answer.headers.get("Mcp-Session-Id") or self.session
            for line in answer:
                line = line.decode().removeprefix("data: ").strip()
                found = json.loads(line) if line.startswith("{") else {}
                if found.get("id") == message.get("id") and "method" not in found:
                    return found
        return None

    def ask(self, method, params):
        self.id += 1
        return self.post({"id": self.id, "method": method, "params": params})

    def begin(self):
        self.ask("initialize", INITIALIZE)
        self.post({"method": "notifications/initialized"})

    def close(self):
        headers = {"Mcp-Session-Id": self.session, "Authorization": f"Bearer {self.token}"}
        urllib.request.urlopen(urllib.request.Request(self.url, None, headers, method="DELETE"))

    def roots(self):
        return []


def check(answer, what):
    result = (answer or {}).get("result")
    if not result or result.get("isError"):
        sys.exit(f"{what}: {answer}")


class Window:
    """One window and its clients."""

    def __init__(self, clients):
        self.clients = clients

    def use(self):
        """Initializes each session, lists tools, and calls one tool of each server."""
        for client in self.clients.values():
            client.begin()
            check(client.ask("tools/list", {}), "tools/list")
        for server, (tool, arguments) in CALLS.items():
            if server in self.clients:
                client, name, sent = self.clients[server], tool, arguments
            else:
                client, name = self.clients["workbench"], "use_tool"
                path = {"toolbox": "desk", "server": server, "tool": tool}
                sent = {"tool": path, "arguments": arguments}
            check(client.ask("tools/call", {"name": name, "arguments": sent}), tool)


def tree(roots):
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            parents[int(entry)] = int(stat.rsplit(") ", 1)[1].split()[1])
    found, more = set(), set(roots)
    while more:
        found |= more
        more = {pid for pid, parent in parents.items() if parent in found} - found
    return found


def pss(pid):
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        return None
    return None


class Service:
    """A workbench over HTTP, with tokens and the service file that `connect` reads."""

    def __init__(self, program, folder, env, agents):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % free.getsockname()[1]
        config = json.loads(Path(folder, "config.json").read_text())
        self.tokens, entries = {}, []
        for agent in agents:
            made = subprocess.run(
                [program, "token", agent, "--json"], env=env, check=True, capture_output=True
            )
            made = json.loads(made.stdout)
            self.tokens[agent] = made["token"]
            entries.append(made["entry"])
        config["auth"] = {"tokens": entries}
        Path(folder, "config.json").write_text(json.dumps(config))
        Path(folder, "config.service.json").write_text(
            json.dumps(
                {
                    "version": 1,
                    "address": self.address,
                    "program": program,
                    "manager": "nobody",
                    "name": "mcp-workbench",
                    "tokens": self.tokens,
                }
            )
        )
        words = [program, "--config", f"{folder}/config.json", "serve", "--http", self.address]
        self.child = subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL)
        host, port = self.address.split(":")
        for _ in range(500):
            try:
                socket.create_connection((host, int(port)), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        sys.exit("the service is not listening")

    def close(self):
        self.child.terminate()
        self.child.wait(20)


def measure(way, windows, program):
    with tempfile.TemporaryDirectory(prefix="windows-") as folder:
        own = servers(folder)
        config = {
            "toolMode": "proxy",
            "toolboxes": {"desk": {"description": "Files, memory, all", "mcpServers": own}},
        }
        Path(folder, "config.json").write_text(json.dumps(config))
        env = {"PATH": os.environ["PATH"], "HOME": folder}
        agents = [f"window-{number}" for number in range(windows)]
        shared = way in ("HTTP", "connect")
        service = Service(program, folder, env, agents) if shared else None
        all_windows, took = [], 0.0
        for agent in agents:
            began = time.monotonic()
            if way == "direct":
                clients = {
                    name: Stdio([entry["command"], *entry["args"]], {**env, **entry.get("env", {})})
                    for name, entry in own.items()
                }
            elif way == "HTTP":
                client = Http(f"http://{service.address}/mcp", service.tokens[agent])
                clients = {"workbench": client}
            else:
                command = ["connect", "--agent", agent] if way == "connect" else ["serve"]
                words = [program, "--config", f"{folder}/config.json", *command]
                clients = {"workbench": Stdio(words, env)}
            window = Window(clients)
            window.use()
            took = time.monotonic() - began
            all_windows.append(window)
        roots = [pid for window in all_windows for c in window.clients.values() for pid in c.roots()]
        pids = tree(roots + ([service.child.pid] if service else []))
        sizes = [size for size in map(pss, pids) if size is not None]
        for window in all_windows:
            for client in window.clients.values():
                client.close()
        if service:
            service.close()
        return len(sizes), sum(sizes) / 1024, took


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--program",
        default=str(ROOT / "target/debug/mcp-workbench"),
        help="executable [default: target/debug/mcp-workbench]",
    )
    parser.add_argument("--windows", default="1,3,6", help="numbers of windows [default: 1,3,6]")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions; prints medians [default: 3]")
    args = parser.parse_args()
    counts = [int(count) for count in args.windows.split(",")]
    heads = (f"{n} windows: processes | MB | first response (s)" for n in counts)
    print("| setup | " + " | ".join(heads) + " |")
    for way in ("direct", "stdio", "HTTP", "connect"):
        cells = []
        for count in counts:
            rounds = [measure(way, count, args.program) for _ in range(args.rounds)]
            processes, memory, took = (statistics.median(own) for own in zip(*rounds))
            cells += [f"{processes:.0f}", f"{memory:.0f}", f"{took:.2f}"]
        print(f"| {way} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
