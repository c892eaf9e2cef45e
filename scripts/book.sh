#!/usr/bin/env bash
# Builds `docs/` as a book in `target/book/` and tests its search with newcomers' questions.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ -x .test-env/book/bin/mdbook ] || scripts/test.sh --setup
.test-env/book/bin/mdbook build
node tests/book/ask.mjs target/book tests/book/questions.json
