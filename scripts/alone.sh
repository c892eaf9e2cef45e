#!/usr/bin/env bash
# Runs a command that sees no network but loopback: `scripts/alone.sh COMMAND...`.
set -euo pipefail

# A network of its own wants root, or a system that lets everybody have one.
if [ "$(id -u)" -eq 0 ]; then alone=(unshare --net); else alone=(unshare --map-root-user --net); fi
if ! "${alone[@]}" ip link set lo up; then
    printf 'error: clients cannot be kept from the network here: that wants `unshare` and `ip`, and root or user namespaces\n' >&2
    exit 1
fi
exec "${alone[@]}" sh -c 'ip link set lo up && exec "$@"' sh "$@"
