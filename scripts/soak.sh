#!/usr/bin/env bash
# Runs a day's worth of mixed traffic, faults and reloads in minutes; `tests/soak/README.md` describes the checks. Includes
# real servers if `scripts/test.sh --setup` has installed them. Linux only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo build --quiet --features test-fakes
exec python3 tests/soak/soak.py "$@"
