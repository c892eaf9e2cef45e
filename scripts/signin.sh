#!/usr/bin/env bash
# From a server that wants a sign-in to the first call of it: what is typed, and how long it takes.
# `scripts/signin.sh [EXECUTABLE]` takes the one of the tests otherwise.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ $# -gt 0 ] || cargo build --quiet
exec node tests/signin/play.mjs "$@"
