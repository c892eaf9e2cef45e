"""Project metadata and supported platforms.

The version comes from `Cargo.toml`. Files in `packaging/` contain `@NAME@` placeholders, which `fill` replaces.
"""

import re
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGING = ROOT / "packaging"
PROGRAM = "mcp-workbench"

MANIFEST = tomllib.loads((ROOT / "Cargo.toml").read_text())
VERSION = MANIFEST["workspace"]["package"]["version"]
REPOSITORY = MANIFEST["workspace"]["package"]["repository"]
DESCRIPTION = MANIFEST["package"]["description"]
LICENSE = MANIFEST["workspace"]["package"]["license"]

# On PyPI, `mcp-workbench` belongs to another project, and names that differ only in hyphens are rejected.
PYPI_NAME = "workbench-mcp"
# The npm organization of the platform packages.
NPM_SCOPE = "@mcp-workbench"
# The name in the MCP registry. The npm and PyPI packages must contain it.
REGISTRY_NAME = "io.github.mcp-workbench/mcp-workbench"

# Files that every archive includes.
PAPERS = ["LICENSE", "NOTICE", "README.md", "CHANGELOG.md"]


class Skipped(Exception):
    """This machine lacks a requirement; the message names it."""


class Failed(Exception):
    """A package is broken; the message describes the error."""


@dataclass(frozen=True)
class Target:
    """A supported platform."""

    triple: str
    # npm's names. The last one distinguishes the C libraries of Linux packages.
    os: str
    cpu: str
    libc: str | None = None
    # The platform tag of the wheel. `None`: derived from the glibc version that the executable requires.
    wheel: str | None = None

    @property
    def executable(self) -> str:
        return f"{PROGRAM}.exe" if self.os == "win32" else PROGRAM

    @property
    def npm_name(self) -> str:
        libc = {"glibc": "-gnu", "musl": "-musl", None: ""}[self.libc]
        return f"{NPM_SCOPE}/{self.os}-{self.cpu}{libc}"


# Static executables run with any C library.
STATIC_X64 = "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"
STATIC_ARM64 = "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"

TARGETS = {
    target.triple: target
    for target in [
        Target("x86_64-unknown-linux-gnu", "linux", "x64", "glibc"),
        Target("aarch64-unknown-linux-gnu", "linux", "arm64", "glibc"),
        Target("x86_64-unknown-linux-musl", "linux", "x64", "musl", STATIC_X64),
        Target("aarch64-unknown-linux-musl", "linux", "arm64", "musl", STATIC_ARM64),
        Target("x86_64-apple-darwin", "darwin", "x64", wheel="macosx_10_12_x86_64"),
        Target("aarch64-apple-darwin", "darwin", "arm64", wheel="macosx_11_0_arm64"),
        Target("x86_64-pc-windows-msvc", "win32", "x64", wheel="win_amd64"),
    ]
}


@dataclass(frozen=True)
class Executable:
    """The workbench's executable for one platform."""

    target: Target
    path: Path


@dataclass
class Trial:
    """The result of installing and running a package."""

    way: str
    command: str
    # The download size.
    bytes: int
    install_seconds: float | None = None
    answer_seconds: float | None = None
    note: str = ""


def fill(text: str, **values: str) -> str:
    """Replaces `@NAME@` placeholders. Fails on unknown names."""
    known = {
        "DESCRIPTION": DESCRIPTION,
        "LICENSE": LICENSE,
        "NPM_SCOPE": NPM_SCOPE,
        "PROGRAM": PROGRAM,
        "PYPI_NAME": PYPI_NAME,
        "REGISTRY_NAME": REGISTRY_NAME,
        "REPOSITORY": REPOSITORY,
        "VERSION": VERSION,
        **values,
    }
    return re.sub(r"@([A-Z][A-Z0-9_]+)@", lambda found: known[found[1]], text)


def template(path: str, **values: str) -> str:
    """Reads a file of `packaging/` and replaces its placeholders."""
    return fill((PACKAGING / path).read_text(), **values)


def run(command: list, **options) -> str:
    """Runs a command and returns its stdout. Raises `Failed` if the command fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options
        )
    except FileNotFoundError:
        raise Skipped(f"{words[0]} is not installed") from None
    if done.returncode != 0:
        printed = (done.stdout + done.stderr).strip()
        raise Failed(f"`{' '.join(words)}` exited with {done.returncode}:\n{printed}")
    return done.stdout


def stray_versions() -> list[str]:
    """Finds copies of the version that have to change with it."""
    found = []
    for name, needs in MANIFEST["workspace"]["dependencies"].items():
        if name.startswith(PROGRAM) and needs.get("version") != VERSION:
            found.append(f"Cargo.toml: {name} has version {needs.get('version')}, expected {VERSION}")
    for path in sorted(PACKAGING.rglob("*")):
        pinned = path.name in ("package-lock.json", "requirements.txt", "server.schema.json")
        if not path.is_file() or pinned or path.suffix == ".pyc":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            own = re.search(rf"(?<![\w.]){re.escape(VERSION)}(?![\w.])", line)
            said = re.search(r'^\s*(?:"version"\s*:|version\b)\s*"(?!@VERSION@)', line)
            if own or said:
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    return found
