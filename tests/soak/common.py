"""Shared parts of the soak test: requests, counters, and the process tree."""

import ctypes
import os
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

TOKENS = {"ann": "soak-ann-token-012345", "ben": "soak-ben-token-678901"}
# Timeout for every wait; a longer wait counts as a hang.
PATIENCE = 40.0
LEGACY = "2025-11-25"
MODERN = "2026-07-28"


class Tally:
    """Counts outcomes and collects failures."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = Counter()
        self.wrong = []

    def add(self, what, number=1):
        with self.lock:
            self.counts[what] += number

    def is_wrong(self, why):
        with self.lock:
            self.wrong.append(why)

    def answered(self, who, sure, answer):
        """Counts a call by its response. `sure` marks a call of a tool that never fails."""
        failed = "error" in answer or bool(answer["result"].get("isError"))
        self.add("errors" if failed else "results")
        if sure and failed:
            self.is_wrong(f"{who}: unexpected error: {str(answer)[:300]}")


def request(number, method, params=None):
    message = {"jsonrpc": "2.0", "id": number, "method": method}
    return message if params is None else message | {"params": params}


def notice(method, params=None):
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else message | {"params": params}


def greeting(asks_users=False):
    return {
        "protocolVersion": LEGACY,
        "capabilities": {"elicitation": {}} if asks_users else {},
        "clientInfo": {"name": "soak", "version": "1"},
    }


def call(path, arguments):
    """Parameters for calling `toolbox/server/tool`."""
    toolbox, server, tool = path.split("/")
    place = {"toolbox": toolbox, "server": server, "tool": tool}
    return {"name": "use_tool", "arguments": {"tool": place, "arguments": arguments}}


class Family:
    """Tracks all descendants. As a subreaper, this process also adopts orphans."""

    def __init__(self):
        self.lock = threading.Lock()
        self.ours = set()
        self.dead = set()
        subreaper = 36  # PR_SET_CHILD_SUBREAPER
        if ctypes.CDLL(None, use_errno=True).prctl(subreaper, 1, 0, 0, 0) != 0:
            raise SystemExit("error: cannot adopt orphans; the soak test needs Linux")

    def start(self, command, **how):
        with self.lock:
            child = subprocess.Popen([str(part) for part in command], **how)
            self.ours.add(child.pid)
        return child

    def below(self, pid):
        """The descendants of a process, as `pid: command line`. Reaps orphans that have exited."""
        parents, ended = {}, set()
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    stat = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                parents[int(entry)] = int(stat[1])
                if stat[0] == "Z" and int(stat[1]) == os.getpid():
                    ended.add(int(entry))
        self._take_away(ended)
        found, more = set(), {pid}
        while more:
            more = {child for child, parent in parents.items() if parent in more} - found
            found |= more
        return {child: command_line(child) for child in found - ended}

    def _take_away(self, ended):
        with self.lock:
            for pid in ended & self.dead - self.ours:
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    pass
            self.dead = ended


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
    except OSError:
        return "(ended)"


def wait_until(is_so, seconds):
    """Waits for a condition; returns `False` on timeout."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
