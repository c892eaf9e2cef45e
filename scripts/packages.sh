#!/usr/bin/env bash
# Creates every kind of package from one executable in `target/packages/`. Then installs each package in a
# separate folder, runs it with a test agent, and prints a table of the results.
#
#   scripts/packages.sh                   all kinds; `--light` skips those that take minutes
#   scripts/packages.sh npm pypi          only these kinds
#   scripts/packages.sh --make FOLDER     only create a release's packages, from FOLDER/TARGET/mcp-workbench
#
# BINARY names the executable (default: cargo's newest build), MUSL a static one for the container.
# `scripts/test.sh --setup-packages` installs the tools. Kinds whose tools are missing are reported and skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec python3 packaging/packages.py "$@"
