#!/usr/bin/env bash
# Checks the files in deploy/: renders and strictly validates every overlay, has the proxies and systemd parse
# their configurations, and checks the structure of the other files. Reports and skips checks whose tools aren't
# installed. tests/it/deploy.rs checks the metric names and the workbench configurations.
#
# scripts/deploy.sh [FOLDER]: check FOLDER instead of deploy/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

deploy=${1:-deploy}
python=.test-env/deploy/bin/python
validate=.test-env/deploy/bin/kubernetes-validate
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skipped() {
    printf '%s: skipped, %s is not installed\n' "$1" "$2"
}

for overlay in "$deploy"/kubernetes/overlays/*/; do
    name=$(basename "$overlay")
    if ! command -v kubectl >/dev/null; then
        skipped "overlay $name" kubectl
        continue
    fi
    kubectl kustomize "$overlay" >"$work/$name.yaml"
    # The validator only warns about Gateway API kinds, which aren't part of a Kubernetes release.
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
    skipped "rule expressions" promtool
fi
if docker compose version >/dev/null 2>&1; then
    TOKEN_OF_CLAUDE=x REDIS_PASSWORD=x docker compose -f "$deploy/compose.yaml" config --quiet
    printf 'compose.yaml: valid\n'
else
    skipped "compose.yaml" "docker compose"
fi
if command -v haproxy >/dev/null; then
    haproxy -c -q -f "$deploy/proxies/haproxy.cfg"
    printf 'haproxy.cfg: valid\n'
else
    skipped haproxy.cfg haproxy
fi
if command -v nginx >/dev/null; then
    nginx -t -q -p "$work" -c "$PWD/$deploy/proxies/nginx.conf"
    printf 'nginx.conf: valid\n'
else
    skipped nginx.conf nginx
fi
if command -v systemd-analyze >/dev/null; then
    # systemd checks that the executable exists, so name one that does.
    sed 's#/usr/bin/mcp-workbench#/bin/true#' "$deploy/systemd/mcp-workbench.service" \
        >"$work/mcp-workbench.service"
    # systemd-analyze only warns about unknown settings and exits with 0.
    said=$(systemd-analyze verify --man=no "$work/mcp-workbench.service" 2>&1) || true
    if grep -q "$work" <<<"$said"; then
        printf '%s\n' "$said" >&2
        exit 1
    fi
    printf 'mcp-workbench.service: valid\n'
else
    skipped mcp-workbench.service systemd-analyze
fi
