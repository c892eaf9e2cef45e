"""Homebrew: a formula that takes the archives of a release."""

from pathlib import Path

from ways import archive
from ways.project import TARGETS, VERSION, Executable, Failed, Trial, run, template
from ways.tools import system_tool

SYSTEMS = {"darwin": "on_macos", "linux": "on_linux"}
PROCESSORS = {"arm64": "on_arm", "x64": "on_intel"}


def make(archives: dict[str, Path], to: Path) -> list[Path]:
    """Writes the formula for those platforms of Homebrew whose archives are there, by triple."""
    to.mkdir(parents=True)
    lines = []
    for system, block in SYSTEMS.items():
        # On Linux the one for glibc, which Homebrew brings along.
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
    """Has Ruby read the formula: Homebrew itself is in no registry."""
    printed = run([system_tool("ruby"), "-c", made[0]])
    if "Syntax OK" not in printed or VERSION not in made[0].read_text():
        raise Failed(f"ruby says of the formula: {printed}")
    command = "brew install mcp-workbench"
    return [Trial("Homebrew", command, made[0].stat().st_size, note="read by ruby, not installed")]
