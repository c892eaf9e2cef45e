#!/usr/bin/env bash
# Tries the page in a real browser, Debian's chromium, against the executable of the tests. With
# `--pictures` it makes the pictures in `docs/images/` anew instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/test.sh --setup-page
cargo build --quiet
export PAGE_ENV="$PWD/.test-env/page"
if [ "${1:-}" = --pictures ]; then
    exec node tests/page/pictures.mjs
fi
exec node --test --test-reporter=spec tests/page/*.test.mjs
