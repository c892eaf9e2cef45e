#!/usr/bin/env bash
# Fuzzes the JSON-RPC parser: `scripts/fuzz.sh [SECONDS]` splits the time (default: 60) among the targets in
# `fuzz/`. Writes crashes to `fuzz/artifacts/` and fails.
#
# Needs cargo-fuzz, a C++ compiler, and a Rust compiler that can instrument, such as stable Rust with
# RUSTC_BOOTSTRAP; skips fuzzing without them. To add new inputs to the corpus:
#   RUSTC_BOOTSTRAP=1 cargo fuzz run TARGET -- -merge=1 fuzz/corpus/TARGET FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skip() {
    printf 'fuzzing skipped: %s\n' "$*"
    exit 0
}

seconds=${1:-60}
targets=(wire json)
share=$((seconds / ${#targets[@]}))
finds=$(mktemp -d)
trap 'rm -rf "$finds"' EXIT
log=$finds/log

command -v c++ >/dev/null || skip "libFuzzer needs a C++ compiler"
if ! cargo fuzz --version >/dev/null 2>&1; then
    cargo install cargo-fuzz --locked >"$log" 2>&1 ||
        skip "failed to install cargo-fuzz: $(tail -n 1 "$log")"
fi
# Fail on a compile error instead of skipping: the cause isn't the toolchain.
cargo check --quiet --locked --manifest-path fuzz/Cargo.toml --lib

export RUSTC_BOOTSTRAP=1
sanitizer=
for candidate in address none; do
    if cargo fuzz build --sanitizer "$candidate" >"$log" 2>&1; then
        sanitizer=$candidate
        break
    fi
done
[ -n "$sanitizer" ] || skip "this toolchain does not support instrumentation: $(grep -m 1 '^error' "$log")"

for target in "${targets[@]}"; do
    mkdir "$finds/$target"
    if ! cargo fuzz run --sanitizer "$sanitizer" "$target" "$finds/$target" "fuzz/corpus/$target" -- \
        -max_total_time="$share" -dict=fuzz/json.dict -timeout=10 >"$log" 2>&1; then
        tail -n 60 "$log"
        exit 1
    fi
    printf '%s, sanitizer %s: %s\n' "$target" "$sanitizer" "$(grep '^Done' "$log")"
done
