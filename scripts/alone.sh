#!/usr/bin/env bash
# Runs a command without network access except loopback: `scripts/alone.sh COMMAND...`.
set -euo pipefail

# Creating a network namespace requires root or unprivileged user namespaces.
if [ "$(id -u)" -eq 0 ]; then alone=(unshare --net); else alone=(unshare --map-root-user --net); fi
if ! "${alone[@]}" ip link set lo up; then
    printf 'error: clients cannot be kept from the network here: that wants `unshare` and `ip`, and root or user namespaces\n' >&2
    exit 1
fi
exec "${alone[@]}" sh -c 'ip link set lo up && exec "$@"' sh "$@"
