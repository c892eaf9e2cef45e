#!/usr/bin/env bash
# Makes a book of `docs/` in `target/book/`, and asks its search what newcomers ask.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ -x .test-env/book/bin/mdbook ] || scripts/test.sh --setup
.test-env/book/bin/mdbook build
node tests/book/ask.mjs target/book tests/book/questions.json
