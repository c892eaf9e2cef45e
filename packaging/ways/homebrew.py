"""Homebrew: a formula that installs the release archives."""

from pathlib import Path

from ways import archive
from ways.project import TARGETS, VERSION, Executable, Failed, Trial, run, template
from ways.tools import system_tool

SYSTEMS = {"darwin": "on_macos", "linux": "on_linux"}
PROCESSORS = {"arm64": "on_arm", "x64": "on_intel"}


def make(archives: dict[str, Path], to: Path) -> list[Path]:
    """Writes the formula for the Homebrew platforms that have an archive. `archives` maps triples to paths."""
    to.mkdir(parents=True)
    lines = []
    for system, block in SYSTEMS.items():
        # On Linux, use the glibc build: Homebrew includes glibc.
        targets = [
            target
            for target in TARGETS.values()
            if target.os == system and target.libc != "musl" and target.triple in archives
        ]
        if not targets:
            continue
        lines.append(f"  {block} do")
        for target in targets:
            path = archives[target.triple]
            lines += [
                f"    {PROCESSORS[target.cpu]} do",
                f'      url "{archive.address(path.name)}"',
                f'      sha256 "{archive.checksum(path)}"',
                "    end",
            ]
        lines += ["  end", ""]
    formula = to / "mcp-workbench.rb"
    formula.write_text(template("homebrew/mcp-workbench.rb", PLATFORMS="\n".join(lines).rstrip()))
    return [formula]


def trial(made: list[Path], _: Executable, __: Path) -> list[Trial]:
    """Checks the formula's syntax with Ruby, because Homebrew can't be installed from a registry."""
    printed = run([system_tool("ruby"), "-c", made[0]])
    if "Syntax OK" not in printed or VERSION not in made[0].read_text():
        raise Failed(f"invalid formula: {printed}")
    command = "brew install mcp-workbench"
    return [Trial("Homebrew", command, made[0].stat().st_size, note="syntax checked, not installed")]
