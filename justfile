# Common tasks. `just quick` needs only Rust; `just all` runs every check that must pass.

# List the recipes.
default:
    @just --list

# Check formatting and lints.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Run the unit tests, or those whose name contains a word. Needs only Rust.
test *args:
    cargo test --workspace --lib --bins {{ args }}

# Run every check that needs only Rust.
quick:
    scripts/test.sh --quick

# Run every check that must pass before a merge; lists what it installs before it does.
all:
    scripts/test.sh

# Run the official conformance suite, or only the named runs, such as `just conformance server`.
conformance *args:
    scripts/conformance.sh {{ args }}

# Test the dashboard in a real browser; `just dashboard --pictures` takes the screenshots for the docs.
dashboard *args:
    scripts/page.sh {{ args }}

# Run six real clients with a scripted model, with and without the workbench; see `just agents --help`.
agents *args:
    scripts/agents.sh {{ args }}

# Act as a new user: five clients, `setup`, a task in each of four agents, `setup undo`; see `just newcomer --help`.
newcomer *args:
    scripts/newcomer.sh {{ args }}

# Count keystrokes and seconds from a server that requires sign-in to its first call.
signin *args:
    scripts/signin.sh {{ args }}

# Compare real servers with and without the workbench in between: all, only the named servers, or ten with `--sample`.
zoo *args:
    scripts/zoo.sh {{ args }}

# Compare the workbench with other MCP gateways on the same ten servers; see `just compare --help`.
compare *args:
    scripts/compare.sh {{ args }}

# Build the docs as a book in `target/book/` and test its search with newcomers' questions.
book:
    scripts/book.sh

# Run a day's worth of traffic, faults and reloads in minutes, and check that nothing is lost or leaks; see `just soak --help`.
soak *args:
    scripts/soak.sh {{ args }}

# Accept new snapshots, expectations and the schema; the second run verifies them.
accept:
    INSTA_UPDATE=always UPDATE_EXPECT=1 cargo nextest run --workspace --no-fail-fast || true
    cargo nextest run --workspace

# Run the workbench, such as `just run demo`.
run *args:
    cargo run --release -- {{ args }}

# Benchmark stdio, startup, HTTP with many sessions and with hostile clients, opening toolboxes, and search.
bench *args:
    cargo bench --bench stdio -- {{ args }}
    cargo bench --bench warm
    cargo bench --bench http
    cargo bench --bench hostile
    cargo bench --bench open
    cargo bench --bench rank

# Load-test several replicas behind a proxy and kill one, such as `just load --replicas 3 --busy 1000`.
load *args:
    cargo bench --bench load -- {{ args }}

# Measure the executable's size, number of crates, and idle memory.
weight *args:
    cargo build --profile dist
    scripts/weight.sh {{ args }}

# Build the release executable with profile-guided optimization.
pgo:
    scripts/pgo.sh

# Create, install and run every kind of package, or only the named kinds, such as `just packages npm pypi`.
packages *args:
    scripts/packages.sh {{ args }}

# Measure search quality on our queries, or on the data in the given folders; see `tests/eval/README.md`.
eval *folders:
    cargo bench --profile dev --bench eval -- {{ folders }}

# Run the checks that CI runs.
ci:
    .ci/run

# Fuzz the JSON-RPC parser for some seconds, such as `just fuzz 600`.
fuzz *args:
    scripts/fuzz.sh {{ args }}
