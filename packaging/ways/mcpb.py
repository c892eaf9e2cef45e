"""MCP bundles, which Claude Desktop and others install with a click; one per platform."""

import json
import shutil
import time
from pathlib import Path

from ways import agent
from ways.project import PROGRAM, ROOT, VERSION, Executable, Failed, Trial, run, template
from ways.tools import npm_tool


def make(executables: list[Executable], to: Path) -> list[Path]:
    """Packs a bundle for each platform."""
    mcpb = npm_tool("mcpb")
    to.mkdir(parents=True)
    made = []
    for executable in _chosen(executables):
        target = executable.target
        folder = to / target.triple
        (folder / "server").mkdir(parents=True)
        manifest = template("mcpb/manifest.json", EXECUTABLE=target.executable, OS=target.os)
        (folder / "manifest.json").write_text(manifest)
        shutil.copy(executable.path, folder / "server" / target.executable)
        (folder / "server" / target.executable).chmod(0o755)
        for paper in ("LICENSE", "NOTICE"):
            shutil.copy(ROOT / paper, folder)
        path = to / f"{PROGRAM}-{target.triple}.mcpb"
        run([mcpb, "validate", folder / "manifest.json"])
        run([mcpb, "pack", folder, path])
        shutil.rmtree(folder)
        made.append(path)
    return made


def _chosen(executables: list[Executable]) -> list[Executable]:
    """One executable per platform. A bundle can't name its C library, so prefer static executables."""
    chosen = {}
    for executable in executables:
        target = executable.target
        if target.libc == "musl" or (target.os, target.cpu) not in chosen:
            chosen[target.os, target.cpu] = executable
    return list(chosen.values())


def trial(bundles: list[Path], executable: Executable, folder: Path) -> list[Trial]:
    """Unpacks the bundle and runs the command in its manifest."""
    config = agent.write_config(folder)
    machine = executable.target.triple.rsplit("-", 1)[0]
    path = next(path for path in bundles if path.stem.startswith(f"{PROGRAM}-{machine}"))
    to = folder / "unpacked"
    started = time.monotonic()
    run([npm_tool("mcpb"), "unpack", path, to])
    seconds = time.monotonic() - started
    manifest = json.loads((to / "manifest.json").read_text())
    if manifest["version"] != VERSION or not (to / manifest["server"]["entry_point"]).is_file():
        raise Failed(f"{path.name} lacks {manifest['server']['entry_point']} of version {VERSION}")
    said = manifest["server"]["mcp_config"]
    words = {"${__dirname}": str(to), "${user_config.config}": str(config)}
    command = [said["command"], *said["args"]]
    for word, value in words.items():
        command = [text.replace(word, value) for text in command]
    answer = agent.answer_seconds(command, env=agent.environment(folder / "home"))
    return [Trial("MCP bundle", f"open {path.name}", path.stat().st_size, seconds, answer)]
