#!/usr/bin/env bash
# Plays a new user: five clients with servers of their own, `setup`, a task in each of four agent
# programs with a scripted model, a server that is added later, `setup undo`; every file of the clients
# is what it was. Nothing sees a network but loopback, nor anything of yours: the home is a temporary one.
# Arguments are those of `tests/newcomer/play.mjs`, which `--help` tells.
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
