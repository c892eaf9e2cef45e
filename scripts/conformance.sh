#!/usr/bin/env bash
# Runs the official MCP conformance suite against the workbench and writes the results to
# `tests/conformance/results/`. Passes its arguments to `tests/conformance/run.mjs`, such as the names of runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/test.sh --setup
# Reuse the test executables instead of building them twice.
cargo test --quiet --no-run --test it
node --test --test-reporter=spec tests/conformance/*.test.mjs
node tests/conformance/run.mjs "$@"
