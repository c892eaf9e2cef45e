# A menu of what one does here; `scripts/test.sh` runs everything that must pass.

# List what there is.
default:
    @just --list

# Format and lints.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Tests, all or those whose name has a word in it.
test *args:
    cargo nextest run {{ args }}

# The official conformance suite, all runs or those named, such as `just conformance server`.
conformance *args:
    scripts/conformance.sh {{ args }}

# Try the page in a real browser; `just page --pictures` makes the pictures of the documentation.
page *args:
    scripts/page.sh {{ args }}

# Run Claude Code, Codex, Gemini CLI and opencode with a scripted model, with and without the workbench; `just agents --help`.
agents *args:
    scripts/agents.sh {{ args }}

# Play a new user: five clients, `setup`, a task in each of four agent programs, `setup undo`; `just newcomer --help`.
newcomer *args:
    scripts/newcomer.sh {{ args }}

# Count what a person types, and how long it takes, until a server that wants a sign-in is called.
signin *args:
    scripts/signin.sh {{ args }}

# Compare real servers with and without the workbench in between, all, those named, or ten with `--sample`.
zoo *args:
    scripts/zoo.sh {{ args }}

# Compare other programs of this kind with ours, with the same ten servers; `just compare --help`.
compare *args:
    scripts/compare.sh {{ args }}

# Make the book of the documentation in `target/book/`, and ask it what newcomers ask.
book:
    scripts/book.sh

# A day's worth of traffic, faults and reloads in minutes: nothing is lost, nothing leaks; `just soak --help`.
soak *args:
    scripts/soak.sh {{ args }}

# Take over new snapshots, expectations and the schema; the second run shows that they hold.
accept:
    INSTA_UPDATE=always UPDATE_EXPECT=1 cargo nextest run --workspace --no-fail-fast || true
    cargo nextest run --workspace

# Run the program, such as `just run demo`.
run *args:
    cargo run --release -- {{ args }}

# Measure the stdio path, how soon it is known what there is, HTTP with many sessions and hostile clients, and search.
bench *args:
    cargo bench --bench stdio -- {{ args }}
    cargo bench --bench warm
    cargo bench --bench http
    cargo bench --bench hostile
    cargo bench --bench open
    cargo bench --bench rank

# Hold and drive many sessions of several workbenches behind a proxy, and kill one, such as `just load --replicas 3 --busy 1000`.
load *args:
    cargo bench --bench load -- {{ args }}

# Measure what the program weighs: its file, its crates, its memory at rest.
weight *args:
    cargo build --profile dist
    scripts/weight.sh {{ args }}

# Build what is handed out: twice, the second time for what the program does when agents use it.
pgo:
    scripts/pgo.sh

# Make every kind of package, install each and run it, or those named, such as `just packages npm pypi`.
packages *args:
    scripts/packages.sh {{ args }}

# Measure how good search is, on data of ours or in the folders named; `tests/eval/README.md`.
eval *folders:
    cargo bench --profile dev --bench eval -- {{ folders }}

# What CI runs.
ci:
    .ci/run

# Look for bytes that break the wire, such as `just fuzz 600`.
fuzz *args:
    scripts/fuzz.sh {{ args }}
