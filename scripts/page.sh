#!/usr/bin/env bash
# Tests the dashboard in Debian's chromium with the debug executable. `--pictures` regenerates the screenshots in
# `docs/images/` instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/test.sh --setup-page
cargo build --quiet
export PAGE_ENV="$PWD/.test-env/page"
if [ "${1:-}" = --pictures ]; then
    exec node tests/page/pictures.mjs
fi
exec node --test --test-reporter=spec tests/page/*.test.mjs
