#!/usr/bin/env bash
# Compares the workbench with other MCP gateways on the same ten real servers. `--write` regenerates
# `tests/compare/README.md`, which describes the measurements. Takes 15 minutes and needs an otherwise idle machine.
# The gateways have no network except loopback.
# Passes its arguments to `tests/compare/compare.py`; see `--help`.
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
