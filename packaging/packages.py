"""Creates every kind of package, installs each in a separate folder, and runs it.

For the usage, see `scripts/packages.sh`.
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ways import archive, container, crates, homebrew, mcp_registry, mcpb, npm, pypi, systemd
from ways.elf import Elf
from ways.project import ROOT, TARGETS, VERSION, Executable, Failed, Skipped, Trial, stray_versions

MADE = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "packages"

# In build order: the Homebrew formula and the registry file contain checksums of other packages.
WAYS = {
    "archive": archive,
    "npm": npm,
    "pypi": pypi,
    "mcpb": mcpb,
    "homebrew": homebrew,
    "mcp-registry": mcp_registry,
    "systemd": systemd,
    "crates": crates,
    "container": container,
}
# `--light` skips these: they take longer than all others combined.
HEAVY = ("crates", "container")


class Packages:
    """The packages of some executables, by kind."""

    def __init__(self, executables: list[Executable], to: Path):
        self.executables = executables
        self.to = to
        self.made: dict[str, list[Path]] = {}

    def make(self, way: str) -> list[Path]:
        """Creates the packages of a kind, after those it depends on. Each kind is created once."""
        if way not in self.made:
            folder = self.to / way
            if folder.exists():
                shutil.rmtree(folder)
            self.made[way] = self._make(way, folder)
        return self.made[way]

    def _make(self, way: str, folder: Path) -> list[Path]:
        if way == "homebrew":
            paths = zip(self.executables, self.make("archive"), strict=True)
            return homebrew.make({one.target.triple: path for one, path in paths}, folder)
        if way == "mcp-registry":
            return mcp_registry.make(self.make("mcpb"), os.environ.get("IMAGE"), folder)
        return WAYS[way].make(self.executables, folder)


def newest() -> Path:
    """The executable in `BINARY`, or the newest release build."""
    if named := os.environ.get("BINARY"):
        return Path(named).resolve()
    built = [MADE.parent / profile / "mcp-workbench" for profile in ("pgo", "dist", "release")]
    built = [path for path in built if path.exists()]
    if not built:
        sys.exit("error: no release build found; run `scripts/pgo.sh`, or set BINARY to an executable")
    return max(built, key=lambda path: path.stat().st_mtime)


def here() -> list[Executable]:
    """The executables for this machine; the first one is tested."""
    paths = [newest()]
    if named := os.environ.get("MUSL"):
        paths.append(Path(named).resolve())
    return [Executable(TARGETS[Elf(path).triple], path) for path in paths]


def attempt(way: str, packages: Packages, folder: Path) -> Iterator[Trial]:
    """Creates and tests the packages of one kind."""
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    made = packages.make(way)
    yield from WAYS[way].trial(made, packages.executables[0], folder)
    print(f"{way}: built and tested in {time.monotonic() - started:.1f} s", flush=True)


def table(trials: list[Trial]) -> str:
    """The results as a Markdown table."""

    def seconds(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    rows = [["package", "command", "MB", "install (s)", "first response (s)", "note"], ["---"] * 6]
    for trial in trials:
        size = f"{trial.bytes / 1e6:.1f}" if trial.bytes > 50_000 else f"{trial.bytes / 1e6:.3f}"
        times = [seconds(trial.install_seconds), seconds(trial.answer_seconds)]
        rows.append([trial.way, f"`{trial.command}`", size, *times, trial.note])
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def try_all(ways: list[str]) -> int:
    executables = here()
    print(f"executables: {', '.join(str(one.path) for one in executables)}", flush=True)
    packages = Packages(executables, MADE)
    trials, failed = [], 0
    for way in ways:
        try:
            # Collect one by one, so that a failure doesn't lose earlier results.
            for trial in attempt(way, packages, MADE / "tried" / way):
                trials.append(trial)
        except Skipped as reason:
            print(f"{way}: skipped, {reason}", flush=True)
        except Failed as reason:
            failed += 1
            print(f"{way}: failed: {reason}", flush=True)
    shutil.rmtree(MADE / "tried", ignore_errors=True)
    print(f"\n{table(trials)}\n")
    return 1 if failed else 0


def make_release(folder: Path) -> int:
    """Creates a release's packages for all platforms, and a list of checksums."""
    found = [
        Executable(target, folder / target.triple / target.executable)
        for target in TARGETS.values()
        if (folder / target.triple / target.executable).exists()
    ]
    if not found:
        raise Failed(f"no TARGET/mcp-workbench in {folder}; expected targets: {', '.join(TARGETS)}")
    shutil.rmtree(MADE, ignore_errors=True)
    packages = Packages(found, MADE)
    for way in ("archive", "npm", "pypi", "mcpb", "homebrew", "mcp-registry", "systemd"):
        print("\n".join(str(path.relative_to(MADE)) for path in packages.make(way)))
    released = [path for way in ("archive", "mcpb") for path in packages.make(way)]
    sums = [f"{archive.checksum(path)}  {path.name}\n" for path in released]
    (MADE / "SHA256SUMS").write_text("".join(sums))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/packages.sh", description=__doc__)
    parser.add_argument("ways", nargs="*", metavar="KIND", help=f"kinds of packages [default: all]: {', '.join(WAYS)}")
    parser.add_argument("--light", action="store_true", help=f"skip {', '.join(HEAVY)}")
    parser.add_argument("--version", action="version", version=VERSION)
    parser.add_argument("--make", metavar="FOLDER", type=Path, help="only create the packages of a release, from FOLDER/TARGET/mcp-workbench")
    args = parser.parse_args()
    if unknown := [way for way in args.ways if way not in WAYS]:
        parser.error(f"unknown kind {', '.join(unknown)}")
    if strays := stray_versions():
        print("\n".join(["error: the version must appear only in Cargo.toml:", *strays]))
        return 1
    if args.make:
        return make_release(args.make)
    return try_all([way for way in args.ways or WAYS if not (args.light and way in HEAVY)])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failed, Skipped) as error:
        sys.exit(f"error: {error}")
