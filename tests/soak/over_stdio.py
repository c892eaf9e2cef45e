"""Agents over stdio: one for the whole run, and short-lived ones that send many concurrent requests."""

import json
import queue
import threading
from subprocess import DEVNULL, PIPE

from common import PATIENCE, call, greeting, notice, request
from world import environment


class Program:
    """A workbench over stdio, with its pending requests."""

    def __init__(self, soak, log):
        world = soak.world
        command = [world.program, "serve", "--config", world.file, "--agent", "ann"]
        command += ["--cache-dir", world.cache, "--log-file", log]
        self.tally = soak.tally
        self.child = soak.family.start(
            command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True, env=environment()
        )
        self.lock, self.waiting, self.last = threading.Lock(), {}, 0
        self.is_leaving = False
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        self.wait(self.send("initialize", greeting()))
        self._write(notice("notifications/initialized"))

    def _read(self):
        for line in self.child.stdout:
            message = json.loads(line)
            if "method" in message:
                self.tally.add("notifications")
                continue
            with self.lock:
                asked = self.waiting.get(message["id"])
                if asked is None or asked.full():
                    self.tally.is_wrong(f"over stdio: unexpected response: {line[:300]}")
                else:
                    asked.put(message)

    def _write(self, message):
        with self.lock:
            self.child.stdin.write(json.dumps(message) + "\n")
            self.child.stdin.flush()

    def send(self, method, params):
        """Sends a request; returns its id."""
        with self.lock:
            self.last += 1
            number = self.last
            self.waiting[number] = queue.Queue(1)
        self._write(request(number, method, params))
        return number

    def wait(self, number):
        """Waits for the response to a request. A timeout returns `None` and counts as a failure."""
        try:
            return self.waiting[number].get(timeout=PATIENCE)
        except queue.Empty:
            self.tally.is_wrong(f"over stdio: no response to request {number} within {PATIENCE} s")

    def cancel(self, number):
        self._write(notice("notifications/cancelled", {"requestId": number}))

    def end(self):
        """Closes stdin and checks the exit code."""
        self.child.stdin.close()
        self._has_ended(0)

    def terminate(self):
        self.child.terminate()
        self._has_ended(0)
        self.child.stdin.close()

    def kill(self):
        self.child.kill()
        self._has_ended(-9)
        self.child.stdin.close()

    def _has_ended(self, expected):
        code = self.child.wait(PATIENCE)
        self.reader.join()
        self.child.stdout.close()
        if code != expected:
            self.tally.is_wrong(f"over stdio: exit code {code}, expected {expected}")


def something(rng):
    """A random call, and whether it must succeed."""
    calm = rng.random() < 0.8
    if calm:
        return rng.choice([
            ("calm/calm/echo", {"n": rng.randrange(10**9)}),
            ("calm/calm/echo", {"text": "x" * rng.randrange(20_000)}),
            ("calm/calm/sleep", {"ms": rng.randrange(300)}),
            ("calm/calm/huge", {"bytes": 300_000}),
        ]) + (True,)
    return rng.choice([
        ("wild/mortal/echo", {}),
        ("wild/mortal/crash", {}),
        ("wild/loud/storm", {"count": 100}),
        ("wild/loud/twice", {}),
        ("wild/broken/echo", {}),
        ("wild/own/echo", {}),
        ("extra/extra/echo", {}),
    ]) + (False,)


def calls(soak, program, rng, number):
    """Makes `number` calls, some concurrently, and checks their responses."""
    for _ in range(number):
        if soak.stopped.wait(rng.uniform(0, 0.1)):
            return
        made = []
        for _ in range(rng.randrange(1, 8)):
            path, arguments, sure = something(rng)
            made.append((path, sure, program.send("tools/call", call(path, arguments))))
        if rng.random() < 0.2:
            program.cancel(program.send("tools/call", call("calm/calm/sleep", {"ms": 15000})))
            soak.tally.add("cancelled calls")
        for path, sure, asked in made:
            answer = program.wait(asked)
            if answer:
                soak.tally.answered(f"over stdio: {path}", sure, answer)


def lasting(soak, rng):
    """Calls through the long-lived workbench."""
    while not soak.stopped.is_set():
        calls(soak, soak.stdio, rng, 10)


def passing(soak, rng):
    """Starts workbenches and ends each by closing stdin, with SIGTERM or with SIGKILL."""
    while not soak.stopped.wait(rng.uniform(0, 1)):
        try:
            with soak.world.is_read:
                program = Program(soak, soak.folder / "passing.log")
            calls(soak, program, rng, rng.randrange(0, 10))
            if rng.random() < 0.5:
                # Leave a call in flight at the end.
                program.send("tools/call", call("wild/stubborn/sleep", {"ms": 15000}))
            rng.choice([program.end, program.terminate, program.kill])()
        except (OSError, ValueError) as error:
            soak.tally.is_wrong(f"over stdio: {error!r}")
        soak.tally.add("workbenches over stdio")
