#!/usr/bin/env bash
# Measures the executable's size, number of crates, and idle memory.
# `scripts/weight.sh [PROGRAM]` defaults to `target/dist/mcp-workbench`.
#
# Needs Linux and python3. Memory is the sum for the workbench and its guard process, with one connected agent:
# first idle, then with one running server. It is the proportional set size, so pages of the executable count once.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=$(realpath "${1:-target/dist/mcp-workbench}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/config.json" <<JSON
{"toolboxes": {"box": {"description": "Test tools", "mcpServers": {
  "clock": {"command": "$program", "args": ["builtin", "clock"]}}}}}
JSON
# The built-in server runs the same executable; with a copy, it shares no pages with the workbench.
cp "$program" "$work/server"
sed -i "s|$program|$work/server|" "$work/config.json"

cat >"$work/rest.py" <<'PYTHON'
import json, pathlib, subprocess, sys, time

command = sys.argv[1:]
agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def ask(number, method, params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    agent.stdin.write((json.dumps(message) + "\n").encode())
    agent.stdin.flush()
    while True:
        line = agent.stdout.readline()
        assert line, "the program exited"
        if json.loads(line).get("id") == number:
            return


def ours():
    """The workbench and its child processes that run the same file."""
    file = pathlib.Path(f"/proc/{agent.pid}/exe").readlink()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (process / "exe").readlink() == file:
                yield process
        except OSError:
            pass


def row(name):
    total = {}
    for process in ours():
        for line in (process / "smaps_rollup").read_text().splitlines()[1:]:
            key, value = line.split()[:2]
            total[key] = total.get(key, 0) + int(value)
    print(f"{name:28} {total['Pss:'] / 1024:6.1f} MB, {total['Pss_Anon:'] / 1024:.1f} MB anonymous")


client = {"name": "measure", "version": "1"}
ask(0, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
# Let the workbench become idle.
time.sleep(2)
row("memory, idle")
ask(1, "tools/call", {"name": "open_toolbox", "arguments": {"toolbox": "box"}})
time.sleep(2)
row("memory, one server running")
agent.stdin.close()
agent.wait()
PYTHON

printf '%-28s %6.1f MB\n' "executable size" "$(stat -c %s "$program" | awk '{ print $1 / 1e6 }')"
printf '%-28s %6d\n' "crates" "$(cargo tree --edges normal,build --prefix none | awk '{ print $1, $2 }' | sort -u | wc -l)"
WORKBENCH_CACHE_DIR=/dev/null python3 "$work/rest.py" "$program" serve --config "$work/config.json" --log-level error
