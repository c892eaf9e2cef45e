#!/usr/bin/env bash
# Compares real servers with and without the workbench in between: definitions, prompts, resources, and the results
# of safe tools. `scripts/zoo.sh --sample` tests ten servers, as CI does, and lists them with the official SDKs in every
# mode; names select servers. `--findings` instead counts the findings of `check --connect` about their definitions. `--lock FOLDER` writes a `workbench.lock` of all
# servers to FOLDER, or compares them with an existing one. Servers run without a network if possible (as root on
# Linux).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in
*" --sample "*) scripts/test.sh --setup ;;
*) scripts/test.sh --setup-zoo ;;
esac
cargo build --quiet
exec python3 tests/zoo/zoo.py "$@"
