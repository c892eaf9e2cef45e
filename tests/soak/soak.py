"""Runs a day's worth of mixed traffic, faults and reloads through the real executable in minutes.

One workbench serves two agents over HTTP and another serves one agent over stdio, from the same configuration, with
scripted and real servers. After a warm-up, each round of traffic is followed by a rest period in which idle sessions
and servers time out. Every call must have exactly one response, unless the client disconnected. At the end, the
numbers of processes, open files, threads and tasks, and the memory, must be back at their values after the warm-up.
"""

import argparse
import faulthandler
import http.client
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL

import over_http
import over_stdio
from common import PATIENCE, TOKENS, Family, Tally, wait_until
from figures import FIGURES, leaks, measure, plot, shown
from world import QUIET_SECONDS, ROOT, World, environment, trouble

# Length of a round of traffic; a rest period follows.
ROUND_SECONDS = 60.0
# Additional time for the figures to recover: the workbench removes expired sessions every 30 s.
SETTLING_SECONDS = 45.0
AT_REST = ["sessions", "servers", "calls", "connections"]


class Soak:
    """The workbench processes, their agents' results, and their figures."""

    def __init__(self, folder, program, fake):
        self.folder, self.began = folder, time.monotonic()
        self.tally, self.family, self.stopped = Tally(), Family(), threading.Event()
        self.world = World(folder, program, fake)
        self.real = self.world.real()
        self.rows, self.rests = [], []

    def start(self):
        program, folder = self.world.program, self.folder
        command = [program, "serve", "--config", self.world.file, "--http", "127.0.0.1:0"]
        command += ["--cache-dir", self.world.cache, "--log-file", folder / "http.log"]
        self.http = self.family.start(command, stdin=DEVNULL, stderr=DEVNULL, env=environment())
        self.port = self._port(folder / "http.log")
        self.stdio = over_stdio.Program(self, folder / "stdio.log")

    def _port(self, log):
        found = lambda: log.exists() and re.search(r"http://127\.0\.0\.1:(\d+)/mcp", log.read_text())
        if not wait_until(found, PATIENCE):
            raise SystemExit(f"the workbench is not listening: {log.read_text() if log.exists() else 'no log'}")
        return int(found()[1])

    def lasting(self):
        return [self.http, self.stdio.child]

    @contextmanager
    def sampling(self):
        """Samples the figures every second in the background."""
        is_over = threading.Event()

        def sample():
            while not is_over.wait(1.0):
                try:
                    self.rows.append(measure(self))
                except (OSError, http.client.HTTPException) as error:
                    self.tally.is_wrong(f"failed to sample figures: {error!r}")

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            yield
        finally:
            is_over.set()
            sampler.join()

    def traffic(self, seconds, rng):
        self.stopped.clear()
        agents = [(over_http.sessions, agent) for agent in [*TOKENS] * 3] + [(over_http.modern, a) for a in TOKENS]
        agents += [(over_http.rude,), (over_stdio.lasting,), (over_stdio.lasting,), (over_stdio.passing,), (trouble,)]
        threads = [
            threading.Thread(target=self._act, args=(act, *who, random.Random(rng.random()))) for act, *who in agents
        ]
        for thread in threads:
            thread.start()
        self.stopped.wait(seconds)
        self.stopped.set()
        for thread in threads:
            thread.join()

    def _act(self, act, *how):
        try:
            act(self, *how)
        except Exception as error:  # An exception in a thread would go unnoticed.
            self.tally.is_wrong(f"{act.__name__} failed: {error!r}")

    def rest(self, before):
        """Waits until everything idle has timed out and, with `before`, the figures have recovered."""
        begin = time.monotonic()
        is_at_rest = lambda row: not any(row[name] for name in AT_REST)
        time.sleep(QUIET_SECONDS)
        wait_until(
            lambda: (row := self.rows[-1]) and is_at_rest(row) and not (before and leaks(before, row)),
            SETTLING_SECONDS,
        )
        row = self.rows[-1]
        self.rests.append([moment - self.began for moment in (begin, time.monotonic())])
        for name in AT_REST:
            if row[name]:
                self.tally.is_wrong(f"{shown(name, row[name])} {name} left at rest")
        return row

    def end(self):
        """Stops both workbenches and checks that no process is left."""
        self.http.send_signal(signal.SIGTERM)
        if self.http.wait(PATIENCE) != 0:
            self.tally.is_wrong(f"the HTTP workbench exited with {self.http.returncode}")
        self.stdio.end()
        if not wait_until(lambda: not self.family.below(os.getpid()), 10):
            for command in self.family.below(os.getpid()).values():
                self.tally.is_wrong(f"process left behind: {command}")
        for log in self.folder.glob("*.log"):
            for line in log.read_text(errors="replace").splitlines():
                if "panicked" in line:
                    self.tally.is_wrong(f"{log.name}: {line[:300]}")

    def give_up(self):
        """Kills all remaining processes."""
        self.stopped.set()
        for pid in self.family.below(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def main():
    parser = argparse.ArgumentParser(prog="just soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5, help="minutes of traffic [default: 5]")
    parser.add_argument("--program", type=Path, help="executable of the workbench [default: debug build]")
    parser.add_argument("--fake", type=Path, help="executable of the scripted server [default: debug build]")
    parser.add_argument("--svg", type=Path, help="write a chart to this file, such as tests/soak/soak.svg")
    parser.add_argument("--seed", type=int, help="seed of the traffic [default: random]")
    options = parser.parse_args()
    debug = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
    seed = options.seed if options.seed is not None else random.randrange(10**6)
    rng, seconds = random.Random(seed), options.minutes * 60
    # SIGUSR1 prints all stack traces, to debug hangs. SIGTERM exits through the cleanup.
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: terminated by SIGTERM"))
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    program = (options.program or debug / "mcp-workbench").resolve()
    soak = Soak(folder, program, (options.fake or debug / "fake-mcp-server").resolve())
    try:
        soak.start()
        before, after = rounds(soak, rng, seconds, seed)
        soak.end()
    finally:
        soak.give_up()
    report(soak, before, after, options)
    shutil.rmtree(folder)


def rounds(soak, rng, seconds, seed):
    """Runs the warm-up and the rounds of traffic; returns the figures at rest before and after."""
    with soak.sampling():
        print(f"seed {seed}: warming up", flush=True)
        soak.traffic(min(ROUND_SECONDS, seconds), rng)
        before = after = soak.rest(None)
        while seconds > 1:
            one = min(ROUND_SECONDS, seconds)
            seconds -= one
            print(f"{one:.0f} s of traffic; at rest {summary(after)}", flush=True)
            soak.traffic(one, rng)
            after = soak.rest(before)
    return before, after


def summary(row):
    return ", ".join(f"{name} {shown(name, row[name])}" for name in ["memory", "stdio memory", "descriptors", "tasks"])


def report(soak, before, after, options):
    counts = ", ".join(f"{number} {what}" for what, number in sorted(soak.tally.counts.items()))
    print(f"\n{counts}\n")
    print(f"{'at rest':34}{'warmed up':>12}{'at the end':>12}{'maximum':>12}")
    for name, figure in FIGURES.items():
        most = max(row[name] for row in soak.rows)
        print(f"{figure.title:34}" + "".join(f"{shown(name, value):>12}" for value in (before[name], after[name], most)))
    if options.svg:
        calls = soak.tally.counts["results"] + soak.tally.counts["errors"]
        title = f"{calls:,} calls in {options.minutes:g} minutes; shaded: at rest; dashed: at rest after the warm-up"
        options.svg.write_text(plot(soak.rows, soak.rests, before, title))
    wrong = soak.tally.wrong + leaks(before, after)
    for what in wrong[:20]:
        print(f"problem: {what}", file=sys.stderr)
    if wrong:
        raise SystemExit(f"error: {len(wrong)} problems; see the logs in {soak.folder}")
    print("\nEvery call got exactly one response, and nothing leaked.")


if __name__ == "__main__":
    main()
