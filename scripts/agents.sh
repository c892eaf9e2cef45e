#!/usr/bin/env bash
# Runs real clients with a scripted model, with and without the workbench, and prints what that took.
# They see no network but loopback, and nothing of the user's: homes and folders are temporary ones.
# Arguments are those of `tests/agents/run.mjs`, which `--help` tells.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case " $* " in
*" --help "* | *" -h "*) exec node tests/agents/run.mjs --help ;;
*" --binary"*) ;;
*) cargo build ;;
esac
scripts/test.sh --setup-agents
node --test --test-reporter=dot tests/agents/*.test.mjs

# A network of its own wants root, or a system that lets everybody have one.
if [ "$(id -u)" -eq 0 ]; then alone=(unshare --net); else alone=(unshare --map-root-user --net); fi
if ! "${alone[@]}" ip link set lo up; then
    printf 'error: clients cannot be kept from the network here: that wants `unshare` and `ip`, and root or user namespaces\n' >&2
    exit 1
fi
exec "${alone[@]}" sh -c 'ip link set lo up && exec node tests/agents/run.mjs "$@"' sh "$@"
