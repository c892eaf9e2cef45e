#!/usr/bin/env bash
# Runs all checks: formatting, lints, tests, and in CI a minute of fuzzing. Needs Rust, Node >= 20, Python >= 3.11
# and git; installs the rest, and lists it before it does.
#
#   scripts/test.sh            every check: the three stages below, one after the other
#   scripts/test.sh --checks   formatting and lints
#   scripts/test.sh --tests    unit and integration tests
#   scripts/test.sh --suites   suites that take minutes: real servers, conformance, a browser, packages, fuzzing
#   scripts/test.sh --quick    the checks that need only Rust; installs nothing
#   scripts/test.sh --setup    only install the servers, clients and SDKs that the tests use
#   scripts/test.sh --setup-agents, --setup-compare, --setup-packages, --setup-page, --setup-zoo
#                              only install the dependencies of `scripts/NAME.sh`
#
# Real servers, SDK clients and the conformance suite go to `.test-env/` and are reinstalled only if their version
# pins change.
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
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$pins"
    checksum "$pins" >"$venv/.stamp"
}

# has_command NAME: succeed if it is installed. Debian puts some programs into folders outside a user's PATH.
has_command() {
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null
}

# The Debian packages to install, and the commands that they provide.
packages=()
missing=()

# need COMMAND PACKAGE: remember the package if the command isn't installed.
need() {
    has_command "$1" && return
    missing+=("$1")
    packages+=("$2")
}

# need_venv: on Debian, the module `venv` doesn't work without the package python3-venv.
need_venv() {
    python3 -c 'import venv, ensurepip' 2>/dev/null && return
    missing+=("python3 -m venv")
    packages+=(python3-venv)
}

need_page() {
    need chromium chromium
}

need_packages() {
    need ruby ruby
}

# need_servers: containers, TLS clients, and the store and proxies for tests with several replicas.
need_servers() {
    need podman podman
    need runc runc
    need curl curl
    need openssl openssl
    need redis-server redis-server
    need haproxy haproxy
    need nginx nginx-light
}

installs_nextest=false

need_nextest() {
    cargo nextest --version >/dev/null 2>&1 || installs_nextest=true
}

# announce: list what is about to be installed outside the repository, and where.
announce() {
    [ "${#packages[@]}" -gt 0 ] || "$installs_nextest" || return 0
    heading "installing outside this repository"
    if [ "${#packages[@]}" -gt 0 ]; then
        printf 'with apt-get, as root: %s\n' "${packages[*]}"
        printf 'Their services are not started now, but Debian starts them at the next boot.\n'
    fi
    if "$installs_nextest"; then
        printf 'with cargo install: cargo-nextest\n'
    fi
    printf '`scripts/test.sh --quick` installs nothing.\n'
}

# install_packages: install the Debian packages without starting their services, which tests start themselves.
install_packages() {
    [ "${#packages[@]}" -gt 0 ] || return 0
    command -v apt-get >/dev/null || fail "not installed: ${missing[*]}"
    heading "apt-get install ${packages[*]}"
    as_root apt-get update -qq
    # systemd and SysV init each have a variable that makes them skip starting services.
    as_root env DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1 RUNLEVEL=1 \
        apt-get install -y -qq --no-install-recommends "${packages[@]}"
}

setup_page() {
    setup_npm page tests/page "browser driver"
    setup_npm signin tests/signin "authorization server"
}

# setup_packages: install the tools that create, check and test packages.
setup_packages() {
    setup_npm packages-node packaging/tools "packaging tools"
    setup_python packages-python packaging/tools/requirements.txt
}

# setup_runners: install uv, and download the packages that tests install with `npx` and `uvx`.
setup_runners() {
    setup_python uv tests/uv/requirements.txt
    local to=.test-env/downloads pins=(tests/zoo/sample/package.json tests/servers/requirements.txt)
    is_current "$to/.stamp" "${pins[@]}" && return
    heading "packages for npx and uvx"
    rm -rf "$to"
    mkdir -p "$to"
    # Only npx also caches the lists of versions.
    npm_config_cache=$PWD/$to/npm npx --yes --package mcp-hello-world@1.1.2 --call true
    rm -rf "$to/npm/_npx"
    .test-env/uv/bin/pip download --quiet --disable-pip-version-check --no-deps \
        --dest "$to/wheels" -r tests/servers/requirements.txt
    checksum "${pins[@]}" >"$to/.stamp"
}

setup_tests() {
    setup_npm node tests/servers "npm servers and SDK"
    setup_npm zoo-sample tests/zoo/sample "npm servers of the zoo sample"
    setup_npm conformance tests/conformance "conformance suite"
    setup_npm signin tests/signin "authorization server"
    setup_python python tests/servers/requirements.txt
    setup_python python-v1 tests/servers/requirements-v1.txt
    setup_python signin-python tests/signin/requirements.txt
    setup_python book tests/book/requirements.txt
    setup_runners
    setup_python deploy deploy/requirements.txt
}

run_checks() {
    heading "format"
    cargo fmt --all --check
    heading "lints"
    cargo clippy --workspace --all-targets -- -D warnings
    heading "type-check for other platforms"
    # Only this crate has platform-specific code. Check it for every platform whose standard library is installed.
    local target
    for target in aarch64-apple-darwin x86_64-pc-windows-gnu x86_64-pc-windows-msvc x86_64-unknown-linux-musl; do
        if rustup target list --installed 2>/dev/null | grep -qx "$target"; then
            cargo check --quiet --package mcp-workbench-os --target "$target"
        else
            printf '%s: skipped, its standard library is not installed\n' "$target"
        fi
    done
}

run_tests() {
    if "$installs_nextest"; then
        heading "cargo install cargo-nextest"
        cargo install cargo-nextest --locked
    fi
    heading "tests"
    # Use a fixed seed, so that a failing property test points at the change. Tests run by hand use random seeds.
    export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED:-14}"
    # Don't stop at the first failure.
    cargo nextest run --workspace --no-fail-fast
    heading "documentation tests"
    cargo test --workspace --doc
}

run_suites() {
    heading "real servers with and without the workbench"
    scripts/zoo.sh --sample
    heading "conformance"
    scripts/conformance.sh
    heading "dashboard in a browser"
    scripts/page.sh
    heading "sign-in, from setup to the first call"
    scripts/signin.sh
    heading "book and its search"
    scripts/book.sh
    heading "deployment files"
    scripts/deploy.sh
    heading "first command of the README"
    cargo run --quiet -- demo | tail -n 20
    heading "packages"
    BINARY=target/debug/mcp-workbench scripts/packages.sh --light
    if [ "${CI:-}" = true ]; then
        heading "fuzzing"
        scripts/fuzz.sh 60
    fi
}

# run_quick: the checks that need only Rust.
run_quick() {
    run_checks
    heading "unit tests"
    cargo test --workspace --lib --bins
    heading "integration tests that need only Rust"
    cargo test --test it -- tidy:: cli_add:: cli_call:: cli_help:: cli_list:: serve_stdio:: serve_proxy::
}

case "${1:-}" in
--quick)
    run_quick
    exit 0
    ;;
--checks)
    run_checks
    exit 0
    ;;
"" | --tests | --suites) ;;
--setup | --setup-agents | --setup-compare | --setup-packages | --setup-page | --setup-zoo) ;;
*) fail "unknown argument \`$1\`; see the comment at the top of scripts/test.sh" ;;
esac

check_tools
need_venv
case "${1:-}" in
--setup-packages) need_packages ;;
--setup-page) need_page ;;
--tests)
    need_servers
    need_nextest
    ;;
--suites)
    need_servers
    need_packages
    need_page
    ;;
"")
    need_servers
    need_packages
    need_page
    need_nextest
    ;;
esac
case "${1:-}" in
"" | --tests | --suites) announce ;;
esac
install_packages
mkdir -p .test-env
case "${1:-}" in
--setup-agents)
    setup_npm agents tests/agents "clients and their servers"
    setup_python agents-python tests/agents/requirements.txt
    setup_python agents-python-v1 tests/agents/requirements-v1.txt
    ;;
--setup-compare)
    setup_npm compare tests/compare "other gateways"
    setup_python compare-python tests/compare/requirements.txt
    ;;
--setup-zoo)
    setup_npm zoo/node tests/zoo "npm servers of the zoo"
    setup_python zoo/python tests/zoo/requirements.txt
    setup_python python tests/servers/requirements.txt
    ;;
--setup-packages) setup_packages ;;
--setup-page) setup_page ;;
--setup) setup_tests ;;
--tests)
    setup_tests
    run_tests
    ;;
--suites)
    setup_tests
    setup_packages
    setup_page
    run_suites
    ;;
"")
    setup_tests
    setup_packages
    setup_page
    run_checks
    run_tests
    run_suites
    ;;
esac
