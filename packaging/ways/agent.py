"""A test agent that connects to an installed workbench, lists its tools and disconnects."""

import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

from ways.project import PROGRAM, VERSION, Failed

DEADLINE = 60

# Uses a built-in server, so that the test downloads nothing.
CONFIG = {
    "toolMode": "direct",
    "toolboxes": {
        "desk": {
            "description": "The time of day",
            "mcpServers": {"clock": {"command": PROGRAM, "args": ["builtin", "clock"]}},
        }
    },
}


def write_config(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "workbench-config.json"
    path.write_text(json.dumps(CONFIG, indent=2))
    return path


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a user without any configuration."""
    home.mkdir(parents=True, exist_ok=True)
    kept = ("LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS")
    some = {name: os.environ[name] for name in kept if name in os.environ}
    tools = [shutil.which(tool) for tool in ("node", "python3")]
    folders = [str(Path(tool).parent) for tool in tools if tool]
    path = ":".join([*folders, "/usr/local/bin:/usr/bin:/bin"])
    return {"PATH": path, "HOME": str(home), **some, **more}


def greeting(number: int, method: str, params: dict) -> dict:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


INITIALIZE = greeting(
    1,
    "initialize",
    {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "packages", "version": "1"},
    },
)
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = greeting(2, "tools/list", {})
CALL = greeting(3, "tools/call", {"name": "now", "arguments": {}})


def check_greeting(answer: dict) -> None:
    """Fails unless this version responded."""
    said = answer.get("result", {}).get("serverInfo", {})
    if said.get("version") != VERSION:
        raise Failed(f"unexpected server {said}, expected version {VERSION}")


def check_tools(answer: dict) -> None:
    """Fails if the server's tool is missing."""
    names = [tool["name"] for tool in answer.get("result", {}).get("tools", [])]
    if not any("now" in name or "time" in name for name in names):
        raise Failed(f"the tool of the clock is missing in {names}")


class Agent:
    """An agent that talks to a child process over stdio."""

    def __init__(self, command: list, **options):
        self.started = time.monotonic()
        self.errors = ""
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        self.timer = threading.Timer(DEADLINE, self.process.kill)
        self.timer.daemon = True
        self.timer.start()
        self.reader = threading.Thread(target=self._read_errors, daemon=True)
        self.reader.start()

    def _read_errors(self) -> None:
        self.errors = self.process.stderr.read()

    def send(self, message: dict) -> None:
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, message: dict) -> dict:
        try:
            self.send(message)
            for line in self.process.stdout:
                answer = json.loads(line)
                if answer.get("id") == message["id"]:
                    return answer
        except (BrokenPipeError, json.JSONDecodeError) as error:
            raise Failed(f"{self._words()} printed something other than MCP: {error}\n{self._end()}") from None
        raise Failed(f"{self._words()} did not respond within {DEADLINE} s:\n{self._end()}")

    def greet(self) -> float:
        """Initializes the session and lists tools. Returns the seconds from start to the first response."""
        check_greeting(self.ask(INITIALIZE))
        seconds = time.monotonic() - self.started
        self.send(INITIALIZED)
        check_tools(self.ask(LIST))
        return seconds

    def leave(self) -> None:
        """Disconnects as clients do, by closing stdin."""
        self.process.stdin.close()
        code = self.process.wait(DEADLINE)
        self.timer.cancel()
        if code != 0:
            raise Failed(f"{self._words()} exited with {code}:\n{self._end()}")

    def _words(self) -> str:
        return f"`{' '.join(map(str, self.process.args))}`"

    def _end(self) -> str:
        self.process.kill()
        self.reader.join(5)
        return self.errors.strip()


def answer_seconds(command: list, **options) -> float:
    """The seconds from the start of an installed workbench to its first response."""
    agent = Agent(command, **options)
    seconds = agent.greet()
    agent.leave()
    return seconds
