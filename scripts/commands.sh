#!/usr/bin/env bash
# Measures `call`, `search` and `list` with and without a running workbench, with a server of npm.
# Usage: scripts/commands.sh [EXECUTABLE] [RUNS]
set -euo pipefail

program=$(realpath "${1:-target/release/mcp-workbench}")
runs=${2:-20}
npm_cache=${npm_config_cache:-$HOME/.npm}
home=$(mktemp -d)
export HOME=$home npm_config_cache=$npm_cache
unset XDG_RUNTIME_DIR WORKBENCH_CONFIG WORKBENCH_AGENT
cd "$home"
cat > workbench-config.json <<'JSON'
{"mcpServers": {"memory": {
  "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory@2026.8.31"],
  "env": {"MEMORY_FILE_PATH": "${HOME}/memory.jsonl"}
}}}
JSON

# The median of the wall times in ms.
measure() {
  for _ in $(seq "$runs"); do
    local start=$EPOCHREALTIME
    "$program" "$@" > /dev/null 2>&1
    local end=$EPOCHREALTIME
    echo $(( (${end/[.,]/} - ${start/[.,]/}) ))
  done | sort -n | awk '{all[NR] = $1} END {printf "%.1f", all[int((NR + 1) / 2)] / 1000}'
}

commands=("call memory:read_graph" "search remember" "list memory")
"$program" list > /dev/null
declare -A cold
for words in "${commands[@]}"; do cold[$words]=$(measure $words --standalone); done
"$program" serve --http 127.0.0.1:0 > log 2>&1 &
served=$!
trap 'kill $served; wait $served; rm -rf "$home"' EXIT
until grep -q dashboard: log; do sleep 0.05; done
"$program" call memory:read_graph > /dev/null
printf '%-24s %12s %12s\n' command "alone (ms)" "running (ms)"
for words in "${commands[@]}"; do
  printf '%-24s %12s %12s\n' "${words%% *}" "${cold[$words]}" "$(measure $words)"
done
