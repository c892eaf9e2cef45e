#!/usr/bin/env bash
# Builds the program that is handed out: as the profile `dist`, and for what it does when agents use it
# (profile-guided optimisation). A call then takes a quarter fewer instructions. `scripts/pgo.sh` puts it into
# `target/pgo/mcp-workbench`.
#
# Wants python3 and rustup, which adds the tools of LLVM. It builds twice: eleven minutes on two processors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rustup component add llvm-tools
llvm=$(rustc --print target-libdir)/../bin
# With a target, what runs while it is built is built without these flags.
target=$(rustc -vV | sed -n 's/^host: //p')
work=$PWD/target/pgo
rm -rf "$work/runs"

# build FLAG: with this flag for the compiler.
build() {
    RUSTFLAGS="${RUSTFLAGS-} $1" cargo build --profile dist --locked --bin mcp-workbench \
        --target "$target" --target-dir "$work"
}

build "-Cprofile-generate=$work/runs"
python3 scripts/pgo.py "$work/$target/dist/mcp-workbench"
"$llvm/llvm-profdata" merge -o "$work/runs.profdata" "$work/runs"
build "-Cprofile-use=$work/runs.profdata"
cp "$work/$target/dist/mcp-workbench" "$work/mcp-workbench"
ls -l "$work/mcp-workbench"
