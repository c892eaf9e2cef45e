#!/usr/bin/env bash
# Makes every kind of package from one executable, into `target/packages/`, then installs each into a
# folder of its own, runs it, and has an agent ask what there is. Prints a table of how that went.
#
#   scripts/packages.sh                   all ways; `--light` leaves out those that take minutes
#   scripts/packages.sh npm pypi          these ways alone
#   scripts/packages.sh --make FOLDER     only makes what a release has, from FOLDER/TARGET/mcp-workbench
#
# BINARY is the executable, else the newest that cargo has built; MUSL a static one for the container.
# `scripts/test.sh --setup-packages` installs the tools; what is missing is said and skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec python3 packaging/packages.py "$@"
