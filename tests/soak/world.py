"""The servers (well-behaved, faulty and real) and their configuration, which changes during the test."""

import hashlib
import json
import os
import signal
import threading
from pathlib import Path
from subprocess import DEVNULL

from common import TOKENS, PATIENCE

ROOT = Path(__file__).resolve().parent.parent.parent
ENVIRONMENTS = ROOT / ".test-env"

# Short timeouts, so that idle sessions and servers end within a rest period.
SERVER_IDLE_MS = 2000
SESSION_IDLE_MS = 4000
HEAD_MS = 8000
BODY_MS = 2000
# Longer than all timeouts above and than the keep-alive of idle threads (10 s).
QUIET_SECONDS = 14.0


class World:

    def __init__(self, folder, program, fake):
        self.program, self.fake = program, fake
        self.file = folder / "workbench.json"
        self.cache = folder / "cache"
        # Held while the file is invalid, and while a workbench starts, which needs a valid file.
        self.is_read = threading.Lock()
        self.write()

    def _scripted(self, script, **more):
        entry = {"command": str(self.fake), "args": [json.dumps(script)]}
        return entry | {"idleTimeoutMs": SERVER_IDLE_MS, "callTimeoutMs": 20000} | more

    def real(self):
        """The real servers that `scripts/test.sh --setup` has installed."""
        found = {}
        clock = ENVIRONMENTS / "python/bin/mcp-server-time"
        everything = ENVIRONMENTS / "node/node_modules/.bin/mcp-server-everything"
        if clock.exists():
            found["clock"] = {"command": str(clock), "args": ["--local-timezone", "UTC"]}
        if everything.exists():
            found["everything"] = {"command": str(everything), "args": ["stdio"]}
        # They start slowly, so give them a longer idle timeout.
        return {name: entry | {"idleTimeoutMs": 5000} for name, entry in found.items()}

    def configuration(self, launch=0, words="Scripted servers", extra=False, guest=False):
        digest = lambda token: hashlib.sha256(token.encode()).hexdigest()
        tokens = TOKENS | ({"guest": "soak-guest-token-2345"} if guest else {})
        calm = self._scripted(
            {"tools": ["echo", "sleep", "huge", "progress", "grow", "shrink", "notify"]},
            env={"LAUNCH": str(launch)},
        )
        wild = {
            "mortal": self._scripted({"tools": ["echo", "crash", "half"], "exitAfterCalls": 40}),
            "loud": self._scripted(
                {"tools": ["echo", "storm", "garbage", "twice", "ids"], "noise": {"stdout": ["no JSON"] * 50}}
            ),
            "broken": self._scripted({"failStart": {"code": 3, "stderr": ["no"]}}),
            "stubborn": self._scripted({"tools": ["echo", "sleep"], "stubborn": True, "grandchild": "astray"}),
            "curious": self._scripted({"tools": ["ask", "echo"]}),
            "own": self._scripted({"tools": ["echo"]}, isolation="session"),
        }
        toolboxes = {
            "calm": {"description": words, "mcpServers": {"calm": calm}},
            "wild": {"description": "Misbehaving servers", "mcpServers": wild},
        }
        if real := self.real():
            toolboxes["real"] = {"description": "Real servers", "mcpServers": real}
        if extra:
            server = {"extra": self._scripted({"tools": ["echo", "sleep"]})}
            toolboxes["extra"] = {"description": "Added and removed", "mcpServers": server}
        return {
            "auth": {"tokens": [{"agent": agent, "sha256": digest(token)} for agent, token in tokens.items()]},
            "http": {"sessionIdleMs": SESSION_IDLE_MS, "headTimeoutMs": HEAD_MS, "bodyTimeoutMs": BODY_MS},
            "limits": {"maxResultBytes": 100000, "perCaller": {"sessionsPerMinute": 60000}},
            "toolboxes": toolboxes,
        }

    def write(self, **changes):
        """Replaces the file atomically, as editors do."""
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps(self.configuration(**changes), indent=1))
        beside.replace(self.file)

    def spoil(self, rng):
        """Makes the file invalid."""
        good = self.file.read_text()
        self.file.write_text(
            rng.choice([good[: len(good) // 2], "", good.replace('"toolboxes"', '"toolbocks"'), "[1, 2]"])
        )


def trouble(soak, rng):
    """Writes valid and invalid configurations, and reloads them by command and by signal."""
    launch = 0
    while not soak.stopped.wait(rng.uniform(2, 5)):
        if rng.random() < 0.75:
            launch += rng.random() < 0.4
            words = rng.choice(["Scripted servers", "Well-behaved servers"])
            soak.world.write(launch=launch, words=words, extra=rng.random() < 0.5, guest=rng.random() < 0.5)
            take_over(soak, rng, is_good=True)
            soak.tally.add("reloads")
        else:
            with soak.world.is_read:
                soak.world.spoil(rng)
                take_over(soak, rng, is_good=False)
                soak.stopped.wait(1)
                soak.world.write(launch=launch)
            soak.tally.add("invalid files")
    # Restore the initial configuration, so that the figures at rest are comparable.
    soak.world.write()
    ask_to_reload(soak, True)


def take_over(soak, rng, is_good):
    if rng.random() < 0.5:
        return ask_to_reload(soak, is_good)
    for program in soak.lasting():
        program.send_signal(signal.SIGHUP)


def ask_to_reload(soak, is_good):
    command = [soak.world.program, "reload", "--config", soak.world.file, "--cache-dir", soak.world.cache]
    with soak.family.start(command, stdout=DEVNULL, stderr=DEVNULL) as asking:
        code = asking.wait(PATIENCE)
    if is_good and code != 0 or not is_good and code != 2:
        soak.tally.is_wrong(f"`reload` of {'a valid' if is_good else 'an invalid'} file exited with {code}")


def environment():
    """A minimal environment."""
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
