#!/usr/bin/env bash
# Runs real clients with a scripted model, with and without the workbench, and prints what that took.
# They see no network but loopback, and nothing of the user's: homes and folders are temporary ones.
# Arguments are those of `tests/agents/run.mjs`, which `--help` tells.
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
