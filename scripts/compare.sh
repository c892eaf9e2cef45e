#!/usr/bin/env bash
# Compares other programs of this kind with ours: each gets the same ten real servers. What is measured
# is on the page `docs/comparison.md`, which `--write` makes again. Takes a quarter of an hour, and wants a
# machine that does nothing else. They see no network but loopback.
# Arguments are those of `tests/compare/compare.py`, which `--help` tells.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in
*" --help "* | *" -h "*) exec python3 tests/compare/compare.py --help ;;
*" --binary"*) ;;
*) cargo build --release ;;
esac
scripts/test.sh --setup-agents
scripts/test.sh --setup-compare
exec scripts/alone.sh python3 tests/compare/compare.py "$@"
