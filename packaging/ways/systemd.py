"""systemd: a user unit that runs a workbench over HTTP."""

import json
import os
import shlex
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from ways import agent
from ways.project import PROGRAM, Executable, Failed, Trial, run, template
from ways.tools import system_tool

UNIT = f"{PROGRAM}.service"


def make(_: list[Executable], to: Path) -> list[Path]:
    to.mkdir(parents=True)
    (to / UNIT).write_text(template(f"systemd/{UNIT}"))
    return [to / UNIT]


def trial(made: list[Path], executable: Executable, folder: Path) -> list[Trial]:
    """Verifies the unit with `systemd-analyze` and runs its command. Doesn't need a running systemd."""
    program = folder / ".local" / "bin" / PROGRAM
    program.parent.mkdir(parents=True)
    shutil.copy(executable.path, program)
    config = agent.write_config(folder / ".config" / "mcp-workbench")
    config.rename(config.with_name("config.json"))
    # systemd takes the home folder from the user database, not from the environment.
    text = made[0].read_text()
    unit = folder / UNIT
    unit.write_text(text.replace("%h", str(folder)))
    runtime = folder / "run"
    runtime.mkdir(mode=0o700)
    verify = [system_tool("systemd-analyze"), "--user", "verify", unit]
    run(verify, env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)})
    line = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    command = shlex.split(line.removeprefix("ExecStart=").replace("%h", str(folder)))
    # Use a free port instead of the unit's fixed port.
    command[-1] = "127.0.0.1:0"
    seconds = _answer_seconds(command, agent.environment(folder))
    size = made[0].stat().st_size
    command = f"systemctl --user enable --now {PROGRAM}"
    note = "unit verified, command tested"
    return [Trial("systemd", command, size, answer_seconds=seconds, note=note)]


def _answer_seconds(command: list[str], env: dict[str, str]) -> float:
    started = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "http://127.0.0.1:" in line:
                address = "http://127.0.0.1:" + line.split("http://127.0.0.1:")[1].split("/")[0].split()[0]
                break
        else:
            raise Failed(f"the service did not start:\n{''.join(lines)}")
        agent.check_greeting(_post(f"{address}/mcp", agent.INITIALIZE))
        return time.monotonic() - started
    finally:
        process.terminate()
        process.wait(agent.DEADLINE)


def _post(address: str, message: dict) -> dict:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    request = urllib.request.Request(address, json.dumps(message).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=agent.DEADLINE) as answer:
            text = answer.read().decode()
    except urllib.error.URLError as error:
        raise Failed(f"{address} did not respond: {error}") from None
    if text.lstrip().startswith("{"):
        return json.loads(text)
    events = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    return next(json.loads(event) for event in events if event.strip())
