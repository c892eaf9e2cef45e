#!/usr/bin/env bash
# Runs all checks: formatting, lints, tests, and in CI a minute of fuzzing. `scripts/test.sh --setup` only installs
# the dependencies of the tests, `--setup-agents` those of `scripts/agents.sh` and `scripts/newcomer.sh`, and
# `--setup-packages`, `--setup-compare` and `--setup-page` those of `scripts/packages.sh`, `scripts/compare.sh` and
# `scripts/page.sh`.
#
# Needs Rust, Node >= 20, Python >= 3.11 and git. Installs the real servers, the SDK clients and the conformance
# suite in `.test-env/`, and reinstalls them only if their version pins change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

heading() {
    printf '\n== %s\n' "$*"
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# as_root COMMAND...: run with sudo unless already root.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# is_current STAMP FILE...: succeed if the stamp matches the checksum of the files.
is_current() {
    [ -f "$1" ] && [ "$(cat "$1")" = "$(checksum "${@:2}")" ]
}

checksum() {
    cat "$@" | sha256sum | cut -d ' ' -f 1
}

check_tools() {
    local tool
    for tool in cargo git npm python3; do
        command -v "$tool" >/dev/null || fail "$tool is not installed"
    done
    node -e 'process.exit(process.versions.node.split(".")[0] >= 20 ? 0 : 1)' ||
        fail "Node is older than 20"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "Python is older than 3.11"
}

# setup_npm NAME FOLDER WHAT: install the packages pinned in FOLDER into `.test-env/NAME`.
setup_npm() {
    local to=.test-env/$1 pins=("$2/package.json" "$2/package-lock.json" "$2/.npmrc")
    is_current "$to/.stamp" "${pins[@]}" && return
    heading "$3"
    mkdir -p "$to"
    cp "${pins[@]}" "$to/"
    npm ci --prefix "$to" --ignore-scripts --loglevel=error
    checksum "${pins[@]}" >"$to/.stamp"
}

# setup_python ENVIRONMENT PINS: create a virtual environment; each version of the SDK needs its own.
setup_python() {
    local venv=.test-env/$1 pins=$2
    is_current "$venv/.stamp" "$pins" && return
    heading "Python packages ($1)"
    # On Debian, `venv` lacks `ensurepip` without the package python3-venv.
    if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
        as_root apt-get update -qq
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv
    fi
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$pins"
    checksum "$pins" >"$venv/.stamp"
}

# setup_podman: install Podman for the tests that run servers in containers.
setup_podman() {
    command -v podman >/dev/null && command -v runc >/dev/null && return
    command -v apt-get >/dev/null || return 0
    heading "Podman"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends podman runc
}

# setup_page: install the browser and the packages that drive it.
setup_page() {
    setup_npm page tests/page "what drives a browser"
    setup_npm signin tests/signin "an authorization server"
    command -v chromium >/dev/null && return
    command -v apt-get >/dev/null || fail "chromium is not installed"
    heading "Chromium"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends chromium
}

# setup_packages: install the tools that create, check and test packages.
setup_packages() {
    setup_npm packages-node packaging/tools "what packs MCP bundles"
    setup_python packages-python packaging/tools/requirements.txt
    command -v ruby >/dev/null && return
    command -v apt-get >/dev/null || return 0
    heading "Ruby, which reads the formula"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ruby
}

# setup_clients: install independent TLS clients.
setup_clients() {
    command -v curl >/dev/null && command -v openssl >/dev/null && return
    command -v apt-get >/dev/null || fail "curl or openssl is not installed"
    heading "curl and openssl"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends curl openssl
}

# setup_redis: install Redis and the proxies for tests with several replicas. Debian starts their services on
# installation, but tests start their own.
setup_redis() {
    local tool missing=
    for tool in redis-server haproxy nginx; do
        # Debian installs two of them in folders that aren't in a user's PATH.
        PATH="$PATH:/usr/sbin:/sbin" command -v "$tool" >/dev/null || missing="$missing $tool"
    done
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null || fail "not installed:$missing"
    heading "Redis, HAProxy and nginx"
    local policy=/usr/sbin/policy-rc.d
    as_root apt-get update -qq
    if [ -e "$policy" ]; then
        install_redis
    else
        printf '#!/bin/sh\nexit 101\n' | as_root install -m 755 /dev/stdin "$policy"
        install_redis || { as_root rm -f "$policy" && fail "not installed:$missing"; }
        as_root rm -f "$policy"
    fi
}

install_redis() {
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends redis-server haproxy nginx-light
}

setup_nextest() {
    cargo nextest --version >/dev/null 2>&1 && return
    heading "cargo-nextest"
    cargo install cargo-nextest --locked
}

check_tools
mkdir -p .test-env
if [ "${1:-}" = --setup-agents ]; then
    setup_npm agents tests/agents "clients and their servers"
    setup_python agents-python tests/agents/requirements.txt
    setup_python agents-python-v1 tests/agents/requirements-v1.txt
    exit 0
fi
if [ "${1:-}" = --setup-compare ]; then
    setup_npm compare tests/compare "programs of this kind on npm"
    setup_python compare-python tests/compare/requirements.txt
    exit 0
fi
if [ "${1:-}" = --setup-zoo ]; then
    setup_npm zoo/node tests/zoo "npm servers of the zoo"
    setup_python zoo/python tests/zoo/requirements.txt
    setup_python python tests/servers/requirements.txt
    exit 0
fi
if [ "${1:-}" = --setup-packages ]; then
    setup_packages
    exit 0
fi
if [ "${1:-}" = --setup-page ]; then
    setup_page
    exit 0
fi
setup_npm node tests/servers "npm servers and SDK"
setup_npm zoo-sample tests/zoo/sample "npm servers of the zoo's sample"
setup_npm conformance tests/conformance "conformance suite"
setup_npm signin tests/signin "an authorization server"
setup_python python tests/servers/requirements.txt
setup_python python-v1 tests/servers/requirements-v1.txt
setup_python signin-python tests/signin/requirements.txt
setup_python book tests/book/requirements.txt
setup_python deploy deploy/requirements.txt
case "${1:-}" in
--setup) exit 0 ;;
"") ;;
*) fail "unknown argument \`$1\`: there are --setup, --setup-agents, --setup-compare, --setup-packages, --setup-page and --setup-zoo" ;;
esac
setup_podman
setup_clients
setup_redis
setup_packages
setup_page
setup_nextest

heading "format"
cargo fmt --all --check
heading "lints"
cargo clippy --workspace --all-targets -- -D warnings
heading "macOS and Windows, as far as they compile here"
# Only this crate has platform-specific code. Check it for every platform whose standard library is installed.
for target in aarch64-apple-darwin x86_64-pc-windows-gnu x86_64-pc-windows-msvc x86_64-unknown-linux-musl; do
    if rustup target list --installed 2>/dev/null | grep -qx "$target"; then
        cargo check --quiet --package mcp-workbench-os --target "$target"
    else
        printf '%s: left out, its standard library is not installed\n' "$target"
    fi
done
heading "tests"
# Use a fixed seed, so that a failing property test points at the change. Tests run by hand use random seeds.
export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-14}"
# Don't stop at the first failure.
cargo nextest run --workspace --no-fail-fast
heading "real servers with and without the workbench"
scripts/zoo.sh --sample
heading "conformance"
scripts/conformance.sh
heading "the page in a browser"
scripts/page.sh
heading "a sign-in, from setup to the first call"
scripts/signin.sh
heading "the book, and what newcomers ask it"
scripts/book.sh
heading "files for deployments"
scripts/deploy.sh
heading "documentation tests"
cargo test --workspace --doc
heading "the README's first command"
cargo run --release --quiet -- demo | tail -n 20
heading "packages, made of that and tried"
scripts/packages.sh --light
if [ "${CI:-}" = true ]; then
    heading "fuzzing"
    scripts/fuzz.sh 60
fi
