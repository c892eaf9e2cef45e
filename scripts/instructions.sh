#!/usr/bin/env bash
# Measures the gateway's cost per call in instructions and system calls, which don't depend on the machine's
# load. `scripts/instructions.sh [BINARIES]` runs the executables in a folder (default: `target/dist`); if the
# folder has no test server, as in `target/pgo`, it uses the one in `target/dist`.
#
# Needs valgrind, strace and python3. Each figure is the difference between a short and a long run, which
# excludes the startup cost.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

binaries=$(realpath "${1:-target/dist}")
server=$binaries/fake-mcp-server
[[ -x $server ]] || server=$(realpath target/dist/fake-mcp-server)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/server.json" <<'JSON'
{"lean": true, "tools": [{"name": "echo", "description": "Returns its arguments.",
  "inputSchema": {"type": "object", "properties": {
    "text": {"type": "string", "description": "Text to return"},
    "loud": {"type": "string", "description": "How"}}}}]}
JSON
cat >"$work/config.json" <<JSON
{"toolMode": "proxy", "toolboxes": {"box": {"description": "Test tools", "mcpServers": {
  "srv": {"command": "$server", "args": ["@$work/server.json"]}}}}}
JSON
cat >"$work/drive.py" <<'PYTHON'
import json, subprocess, sys

way, size, calls, command = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
gateway = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def ask(number, method, params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    gateway.stdin.write((json.dumps(message) + "\n").encode())
    gateway.stdin.flush()
    while b'"id":%d,' % number not in (line := gateway.stdout.readline())[:60]:
        assert line, "the gateway exited"
    assert b'"error"' not in line[:60] and b'"isError":true' not in line[:200], line[:500]


client = {"name": "measure", "version": "1"}
ask(0, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
arguments = {"text": "x" * size}
call = {"name": "box__srv__echo", "arguments": arguments}
if way == "use_tool":
    tool = {"toolbox": "box", "server": "srv", "tool": "echo"}
    call = {"name": "use_tool", "arguments": {"tool": tool, "arguments": arguments}}
for number in range(1, calls + 2):
    ask(number, "tools/call", call | {"_meta": {"progressToken": number}})
gateway.stdin.close()
gateway.wait()
PYTHON

# Exclude writes to the listing cache.
export WORKBENCH_CACHE_DIR=/dev/null
serve=("$binaries/mcp-workbench" serve --config "$work/config.json" --log-level error)

# instructions WAY SIZE CALLS: count the instructions of a run.
instructions() {
    python3 "$work/drive.py" "$1" "$2" "$3" valgrind --tool=callgrind \
        --callgrind-out-file=/dev/null --log-file="$work/log.%p" "${serve[@]}"
    cat "$work"/log.* | awk '/Collected/ { if ($4 > most) most = $4 } END { print most }'
    rm -f "$work"/log.*
}

# system_calls WAY SIZE CALLS: count the system calls of a run, without its servers.
system_calls() {
    python3 "$work/drive.py" "$1" "$2" "$3" strace -c -o "$work/calls" "${serve[@]}"
    # Columns: % time, seconds, usecs/call, calls, and errors if there were any.
    awk '$NF == "total" { print $4 }' "$work/calls"
}

for way in name use_tool; do
    few=$(instructions "$way" 100 100)
    more=$(instructions "$way" 100 1100)
    printf '%-9s %7d B  %8d instructions per call\n' "$way" 100 $(((more - few) / 1000))
    few=$(instructions "$way" 1000000 5)
    more=$(instructions "$way" 1000000 25)
    printf '%-9s %7d B  %8s instructions per byte\n' "$way" 1000000 \
        "$(awk "BEGIN { printf \"%.1f\", ($more - $few) / 20 / 1000000 }")"
    few=$(system_calls "$way" 100 100)
    more=$(system_calls "$way" 100 1100)
    printf '%-9s %7d B  %8s system calls per call\n' "$way" 100 \
        "$(awk "BEGIN { printf \"%.1f\", ($more - $few) / 1000 }")"
done
