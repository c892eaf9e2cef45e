"""What packages say of the project, and the platforms that there are packages for.

The version stands in `Cargo.toml` alone. The files of `packaging/` have `@NAME@` in the places that
are filled in here.
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

# The name on PyPI: there `mcp-workbench` belongs to others, and what differs from it by hyphens
# alone is refused.
PYPI_NAME = "workbench-mcp"
# The organization on npm that the packages of the platforms belong to.
NPM_SCOPE = "@mcp-workbench"
# The name in the MCP registry, which npm's and PyPI's package have to name as well.
REGISTRY_NAME = "io.github.mcp-workbench/mcp-workbench"

# What goes along with every executable.
PAPERS = ["LICENSE", "NOTICE", "README.md", "CHANGELOG.md"]


class Skipped(Exception):
    """Something cannot be done on this machine; says why."""


class Failed(Exception):
    """Something went wrong; says what."""


@dataclass(frozen=True)
class Target:
    """A platform that there are packages for."""

    triple: str
    # As npm calls them; the last part tells the packages for Linux apart.
    os: str
    cpu: str
    libc: str | None = None
    # The platform in the name of a wheel; none where the executable says which glibc it needs.
    wheel: str | None = None

    @property
    def executable(self) -> str:
        return f"{PROGRAM}.exe" if self.os == "win32" else PROGRAM

    @property
    def npm_name(self) -> str:
        libc = {"glibc": "-gnu", "musl": "-musl", None: ""}[self.libc]
        return f"{NPM_SCOPE}/{self.os}-{self.cpu}{libc}"


# A static executable runs with any C library.
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
    """The program, built for one platform."""

    target: Target
    path: Path


@dataclass
class Trial:
    """How it went when what was made was installed and run."""

    way: str
    command: str
    # What a user downloads.
    bytes: int
    install_seconds: float | None = None
    answer_seconds: float | None = None
    note: str = ""


def fill(text: str, **values: str) -> str:
    """Puts values in the place of `@NAME@`; every one has to be known."""
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
    """A file of `packaging/`, filled in."""
    return fill((PACKAGING / path).read_text(), **values)


def run(command: list, **options) -> str:
    """Runs a command to its end and returns what it printed; its errors are those of the script."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options
        )
    except FileNotFoundError:
        raise Skipped(f"{words[0]} is not installed") from None
    if done.returncode != 0:
        printed = (done.stdout + done.stderr).strip()
        raise Failed(f"`{' '.join(words)}` ended with {done.returncode}:\n{printed}")
    return done.stdout


def stray_versions() -> list[str]:
    """The places that have a version of the program and would have to be changed with it."""
    found = []
    for name, needs in MANIFEST["workspace"]["dependencies"].items():
        if name.startswith(PROGRAM) and needs.get("version") != VERSION:
            found.append(f"Cargo.toml: {name} is wanted as {needs.get('version')}, not {VERSION}")
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
