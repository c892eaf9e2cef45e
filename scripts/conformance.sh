#!/usr/bin/env bash
# Runs the official MCP conformance suite against the workbench, and writes its results to
# `tests/conformance/results/`. Arguments are those of `tests/conformance/run.mjs`, such as the
# names of the runs that are wanted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/test.sh --setup
# The executables are those of the tests, so that nothing is built twice.
cargo test --quiet --no-run --test it
node --test --test-reporter=spec tests/conformance/*.test.mjs
node tests/conformance/run.mjs "$@"
