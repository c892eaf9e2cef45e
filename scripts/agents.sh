#!/usr/bin/env bash
# Runs real clients with a scripted model, with and without the workbench, and prints the cost of each task.
# The clients have no network except loopback, and temporary homes and working directories.
# Passes its arguments to `tests/agents/run.mjs`; see `--help`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in
*" --help "* | *" -h "*) exec node tests/agents/run.mjs --help ;;
*" --binary"*) ;;
*) cargo build ;;
esac
scripts/test.sh --setup-agents
node --test --test-reporter=dot tests/agents/*.test.mjs
exec scripts/alone.sh node tests/agents/run.mjs "$@"
