#!/usr/bin/env bash
# A day's worth of mixed traffic, faults and reloads, pressed into minutes; `docs/soak.md` says what is
# looked at. Real servers take part if `scripts/test.sh --setup` has installed them. Linux only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo build --quiet --features test-fakes
exec python3 tests/soak/soak.py "$@"
