#!/usr/bin/env bash
# Checks the files in deploy/: every overlay is rendered and validated strictly, proxies and systemd read
# their configurations, and what the others say is well-formed. What a machine has no program for is
# left out and said so. That metrics and configurations are right is for tests/it/deploy.rs.
#
# scripts/deploy.sh [FOLDER]: checks the files in FOLDER in place of deploy/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

deploy=${1:-deploy}
python=.test-env/deploy/bin/python
validate=.test-env/deploy/bin/kubernetes-validate
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

left_out() {
    printf '%s: left out, %s is not installed\n' "$1" "$2"
}

for overlay in "$deploy"/kubernetes/overlays/*/; do
    name=$(basename "$overlay")
    if ! command -v kubectl >/dev/null; then
        left_out "overlay $name" kubectl
        continue
    fi
    kubectl kustomize "$overlay" >"$work/$name.yaml"
    # Kinds of the Gateway API are in no release of Kubernetes: a warning.
    for version in 1.33 1.37; do
        "$validate" --strict --quiet -k "$version" "$work/$name.yaml" >"$work/said" 2>&1 || {
            cat "$work/said" >&2
            exit 1
        }
    done
    printf 'overlay %s: valid\n' "$name"
done

"$python" scripts/deploy.py "$deploy"

if command -v promtool >/dev/null; then
    promtool check rules "$deploy/prometheus/rules.yaml"
else
    left_out "expressions of the rules" promtool
fi
if docker compose version >/dev/null 2>&1; then
    TOKEN_OF_CLAUDE=x REDIS_PASSWORD=x docker compose -f "$deploy/compose.yaml" config --quiet
    printf 'compose.yaml: valid\n'
else
    left_out "variables of compose.yaml" "docker compose"
fi
if command -v haproxy >/dev/null; then
    haproxy -c -q -f "$deploy/proxies/haproxy.cfg"
    printf 'haproxy.cfg: valid\n'
else
    left_out haproxy.cfg haproxy
fi
if command -v nginx >/dev/null; then
    nginx -t -q -p "$work" -c "$PWD/$deploy/proxies/nginx.conf"
    printf 'nginx.conf: valid\n'
else
    left_out nginx.conf nginx
fi
if command -v systemd-analyze >/dev/null; then
    # Any program will do for one that is not installed here.
    sed 's#/usr/bin/mcp-workbench#/bin/true#' "$deploy/systemd/mcp-workbench.service" \
        >"$work/mcp-workbench.service"
    # It says on standard error what it does not understand, and succeeds.
    said=$(systemd-analyze verify --man=no "$work/mcp-workbench.service" 2>&1) || true
    if grep -q "$work" <<<"$said"; then
        printf '%s\n' "$said" >&2
        exit 1
    fi
    printf 'mcp-workbench.service: valid\n'
else
    left_out mcp-workbench.service systemd-analyze
fi
