#!/usr/bin/env bash
# Measures the commands and the time from a server that requires sign-in to its first call.
# `scripts/signin.sh [EXECUTABLE]`; by default it builds and runs the debug executable.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ $# -gt 0 ] || cargo build --quiet
exec node tests/signin/play.mjs "$@"
