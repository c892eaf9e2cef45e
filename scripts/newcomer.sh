#!/usr/bin/env bash
# Acts as a new user: five clients that already have servers, `setup`, a task in each of four agents with a
# scripted model, a server added later, a server with a variable and rules, an edit between two runs of `setup`, and
# `setup undo`; then checks that the clients' files are unchanged.
# Commands have no network except loopback, and a temporary home.
# Passes its arguments to `tests/newcomer/play.mjs`; see `--help`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in
*" --help "* | *" -h "*) exec node tests/newcomer/play.mjs --help ;;
*" --binary"*) ;;
*) cargo build ;;
esac
scripts/test.sh --setup-agents
node --test --test-reporter=dot tests/newcomer/*.test.mjs
exec scripts/alone.sh node tests/newcomer/play.mjs "$@"
