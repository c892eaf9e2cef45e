#!/usr/bin/env python3
"""Measures servers of `npx` and `uvx` through their package runner and directly.

scripts/direct-starts.py PROGRAM [SERVER...]

Needs Linux, npm, the network, and uv from `scripts/test.sh --setup`. Packages are installed into a temporary home. For
each server, prints a row of the table in docs/servers.md: the time from the start of the workbench to the list of
tools, first with an empty cache, then with a warm one through the runner and directly (the best of three), and the
memory of the server's processes (PSS).
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

UVX = Path(__file__).resolve().parent.parent / ".test-env/uv/bin/uvx"
SERVERS = {
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
    "@upstash/context7-mcp": "latest",
    "mcp-hello-world": "1.1.2",
    "@playwright/mcp": "latest",
    "mcp-server-fetch": None,
    "mcp-server-git": None,
    "mcp-server-calculator": None,
    "mcp-server-time": None,
}
ARGS = {"@modelcontextprotocol/server-filesystem": ["."]}
RUNS = 3
# How long a server can take to list its tools, in seconds.
LONGEST = 120
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "direct-starts", "version": "1"},
}


def entry(server, version):
    if version is None:
        return {"command": str(UVX), "args": [server]}
    return {"command": "npx", "args": ["-y", f"{server}@{version}", *ARGS.get(server, [])]}


def descendants(pid):
    children = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(process.name))
    found = [pid]
    for each in found:
        found.extend(children.get(each, []))
    return found[1:]


def is_guard(pid, program):
    """The workbench's own process, which ends servers if the workbench is killed."""
    try:
        return os.path.samefile(f"/proc/{pid}/exe", program)
    except OSError:
        return False


def pss(pid):
    """The memory of a process in MB, or 0 if it has exited."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def start(program, home, server, direct):
    """Starts a workbench with one server. Returns the time, the memory, and the number of tools."""
    config = home / "workbench.json"
    launch = {**entry(server, SERVERS[server]), "direct": direct, "startupTimeoutMs": 300_000}
    toolbox = {"description": "The measured server", "mcpServers": {"measured": launch}}
    config.write_text(json.dumps({"toolboxes": {"box": toolbox}}))
    # Without its cached tools, the list waits for the server.
    shutil.rmtree(home / ".cache/mcp-workbench/listings", ignore_errors=True)
    env = {**os.environ, "HOME": str(home)}
    command = [program, "serve", "--config", config, "--tool-mode", "direct"]
    began = time.monotonic()
    with subprocess.Popen(
        command, cwd=home, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as workbench:

        def send(message):
            workbench.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            workbench.stdin.flush()

        def result(number):
            for line in workbench.stdout:
                message = json.loads(line)
                if message.get("id") == number:
                    return message["result"]
            raise RuntimeError("the workbench exited")

        send({"id": 1, "method": "initialize", "params": INITIALIZE})
        result(1)
        send({"method": "notifications/initialized"})
        # The list doesn't wait for a server that takes long.
        tools, number = 0, 1
        while not tools and time.monotonic() - began < LONGEST:
            number += 1
            send({"id": number, "method": "tools/list"})
            tools = len(result(number)["tools"])
            time.sleep(0.01)
        took = time.monotonic() - began
        # Let the work after the start finish, which includes questions to uv.
        time.sleep(2)
        servers = [pid for pid in descendants(workbench.pid) if not is_guard(pid, program)]
        memory = sum(pss(pid) for pid in servers)
        workbench.stdin.close()
        workbench.wait(20)
    return took, memory, tools


def main():
    program, *names = sys.argv[1:]
    program = str(Path(program).resolve())
    with tempfile.TemporaryDirectory() as home:
        home = Path(home)
        print("| server | empty cache | time | memory |\n| --- | --- | --- | --- |", flush=True)
        for server in names or SERVERS:
            cold = start(program, home, server, True)
            if not cold[2]:
                print(f"{server}: listed no tools", file=sys.stderr, flush=True)
                continue
            runner = [start(program, home, server, False) for _ in range(RUNS)]
            direct = [start(program, home, server, True) for _ in range(RUNS)]
            (before, memory_before, _), (after, memory_after, _) = min(runner), min(direct)
            print(
                f"| `{server}` | {cold[0]:.1f} s | {before:.2f} → {after:.2f} s "
                f"| {memory_before:.0f} → {memory_after:.0f} MB |",
                flush=True,
            )


if __name__ == "__main__":
    main()
