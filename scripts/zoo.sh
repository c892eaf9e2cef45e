#!/usr/bin/env bash
# Compares real servers with and without the workbench in between: definitions, prompts, resources,
# and the answers of safe tools. `scripts/zoo.sh --sample` looks at ten of them, as CI does; names of
# servers look at these alone. `--remarks` counts what `check --connect` remarks on their definitions
# instead, and `--lock FOLDER` writes `workbench.lock` of all servers there, or compares
# them with it. Servers run without a network where that can be had (as root on Linux).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in
*" --sample "*) scripts/test.sh --setup ;;
*) scripts/test.sh --setup-zoo ;;
esac
cargo build --quiet
exec python3 tests/zoo/zoo.py "$@"
