"""Compares real MCP servers with and without the workbench in between.

For each server of `servers.json`, a client connects to the server, then to the workbench in `direct` mode with only
that server, then to the server again. Definitions of tools, prompts, resources and templates must be byte-identical,
and so must the results of every safe tool for no arguments, for the required arguments without defaults, and for
values of wrong types. Wrong types are also sent through `use_tool`, which may append a text block to an error.
Differences between the two direct runs are counted but don't fail. With `--sample`, the clients of the official SDKs
also list all servers together in every mode.

Servers run in a temporary folder, which is also their HOME, and if possible without a network.
"""

import argparse
import concurrent.futures
import fcntl
import json
import os
import queue
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ENVIRONMENTS = ROOT / ".test-env"
WORKBENCH = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "mcp-workbench"

MODES = "direct dynamic proxy modular search navigate activate auto".split()

# The official SDKs, each with a client from `tests/clients`.
SDKS = {
    "TypeScript 1": ["node", "lists.mjs", "v1"],
    "TypeScript 2": ["node", "lists.mjs", "v2-auto"],
    "Python 1": [str(ENVIRONMENTS / "python-v1/bin/python"), "lists.py"],
    "Python 2": [str(ENVIRONMENTS / "python/bin/python"), "lists.py"],
}

START_SECONDS = 120
CALL_SECONDS = 30
TRIES = 3

LISTS = [
    ("tools", "tools/list", "tools"),
    ("prompts", "prompts/list", "prompts"),
    ("resources", "resources/list", "resources"),
    ("templates", "resources/templates/list", "resourceTemplates"),
]

# A tool is safe if its annotations say so, or if its name starts with a word from SAFE and has none from UNSAFE.
SAFE = """get list read search describe show find view check validate count lookup query_docs echo
    help info explain compare resolve detect is has calculate convert current status ping
    version analyze inspect hello sum time now""".split()
UNSAFE = """delete remove drop send buy pay create update write edit set put post execute exec run
    kill stop start move rename install uninstall deploy publish merge close open click type press
    navigate upload download save insert cancel archive reset clear purge login logout auth
    wait sleep record call reply share invite assign approve submit generate screenshot""".split()

# Masks for values that vary between results: times, ids, ports.
MASKS = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"(?<=[^\d])1[67]\d{8}(\d{3})?(\.\d+)?(?=[^\d])"), "<time>"),
    (re.compile(r"\d+(\.\d+)? ?(ms|µs|seconds|sec)\b"), "<duration>"),
    (re.compile(r"(?<=localhost:)\d+|(?<=127\.0\.0\.1:)\d+"), "<port>"),
    (re.compile(r"\b(pid|PID)\b\W{0,4}\d+"), "<pid>"),
]


def masked(text):
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    return text


BETWEEN = re.compile(r"[\s,:]*")


def values(text, start):
    """The source texts of a JSON object's or array's values in order, including keys."""
    decode = json.JSONDecoder().raw_decode
    at = BETWEEN.match(text, start + 1).end()
    while text[at] not in "]}":
        _, end = decode(text, at)
        yield text[at:end]
        at = BETWEEN.match(text, end).end()


def members(text):
    """The members of a JSON object, with values as source text."""
    found = values(text, text.index("{"))
    return {json.loads(key): value for key, value in zip(found, found)}


def items(text):
    """The items of a JSON array as source text."""
    return list(values(text, text.index("[")))


class Gone(Exception):
    """The server exited or timed out."""


class Client:
    """A minimal client over stdio that sees the exact bytes."""

    def __init__(self, command, env, cwd):
        self.log = tempfile.TemporaryFile()
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
        self.answers, self.inbox, self.next = {}, queue.Queue(), 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.child.stdout:
            try:
                text = line.decode()
                message = json.loads(text)
            except ValueError:
                continue
            if not isinstance(message, dict):
                continue
            if "method" in message:
                if "id" in message:
                    self._answer(message)
            elif "id" in message:
                self.inbox.put((message["id"], text))
        self.inbox.put((None, None))

    def _answer(self, asked):
        answer = {"jsonrpc": "2.0", "id": asked["id"]}
        if asked["method"] == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        self._send(answer)

    def _send(self, message):
        try:
            self.child.stdin.write(json.dumps(message).encode() + b"\n")
            self.child.stdin.flush()
        except (BrokenPipeError, OSError) as error:
            raise Gone("stdin is closed") from error

    def request(self, method, params, seconds=CALL_SECONDS):
        """Sends a request; returns the response's members (`result` or `error`) as source text."""
        self.next += 1
        wanted, until = self.next, time.monotonic() + seconds
        message = {"jsonrpc": "2.0", "id": wanted, "method": method}
        if params is not None:
            message["params"] = params
        self._send(message)
        while wanted not in self.answers:
            try:
                number, text = self.inbox.get(timeout=max(0.01, until - time.monotonic()))
            except queue.Empty:
                raise Gone(f"no response to {method} within {seconds} s") from None
            if text is None:
                raise Gone(f"the server exited: {self.said()}")
            self.answers[number] = text
        return members(self.answers.pop(wanted))

    def initialize(self):
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "zoo", "version": "1.0.0"},
        }
        answer = self.request("initialize", params, START_SECONDS)
        if "result" not in answer:
            raise Gone(f"`initialize` failed: {answer.get('error')}")
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return json.loads(answer["result"])

    def list(self, method, member):
        """The entries of all pages as source text; empty if the server doesn't support the list."""
        entries, params = [], {}
        for _ in range(100):
            answer = self.request(method, params, START_SECONDS)
            if "result" not in answer:
                return entries
            page = members(answer["result"])
            entries += items(page.get(member, "[]"))
            cursor = json.loads(page.get("nextCursor", "null"))
            if cursor is None:
                return entries
            params = {"cursor": cursor}
        return entries

    def said(self):
        """The end of its stderr."""
        self.log.seek(0)
        return self.log.read()[-300:].decode(errors="replace").strip()

    def close(self):
        try:
            self.child.stdin.close()
        except OSError:
            pass
        for signum, seconds in ((None, 2), (signal.SIGTERM, 2), (signal.SIGKILL, 5)):
            try:
                if signum is not None:
                    os.killpg(self.child.pid, signum)
                self.child.wait(seconds)
            except (ProcessLookupError, PermissionError):
                break
            except subprocess.TimeoutExpired:
                continue
            # Its child processes may still run.
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def is_safe(tool, skipped):
    annotations = tool.get("annotations") or {}
    if tool["name"] in skipped or annotations.get("destructiveHint") is True and not annotations.get(
        "readOnlyHint"
    ):
        return False
    spread = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", tool["name"]).lower()
    words = [word for word in re.split(r"[^a-z0-9]+", spread) if word]
    if any(word in UNSAFE for word in words):
        return False
    return annotations.get("readOnlyHint") is True or any(word in SAFE for word in words[:3])


def fitting(schema, defs, depth=0):
    """A small value that matches a schema, if possible."""
    if not isinstance(schema, dict) or depth > 6:
        return "a"
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        return fitting(defs.get(name, {}), defs, depth + 1)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return fitting(schema[key][0], defs, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind in ("number", "integer"):
        return max(1, int(schema.get("minimum", 1)))
    if kind == "boolean":
        return False
    if kind == "array":
        items_wanted = int(schema.get("minItems", 0))
        return [fitting(schema.get("items", {}), defs, depth + 1)] * items_wanted
    if kind == "object":
        return least(schema, defs, depth + 1)
    if kind == "null":
        return None
    if schema.get("format") in ("uri", "url"):
        return "http://127.0.0.1:9/"
    return "a" * max(1, min(int(schema.get("minLength", 1)), 200))


def least(schema, defs=None, depth=0):
    """Values for the required properties without defaults."""
    defs = defs or {**schema.get("definitions", {}), **schema.get("$defs", {})}
    properties = schema.get("properties") or {}
    required = [name for name in schema.get("required") or [] if isinstance(name, str)]
    return {
        name: fitting(properties.get(name, {}), defs, depth)
        for name in required
        if "default" not in (properties.get(name) or {})
    }


def wrong(schema):
    """A value of a wrong type for every property."""
    other = {"string": 7, "number": "7", "integer": "7", "boolean": "yes", "array": "[1]"}
    properties = schema.get("properties") or {}
    bent = {}
    for name, said in properties.items():
        kind = said.get("type") if isinstance(said, dict) else None
        bent[name] = other.get(kind, {"unexpected": [None]}) if isinstance(kind, str) else 7
    return {**bent, "unheard_of": None}


def tries(tool):
    """The arguments to test, by kind; `None` omits `arguments`."""
    schema = tool.get("inputSchema") or {}
    return {"none": None, "empty": {}, "least": least(schema), "wrong": wrong(schema)}


@dataclass
class Seen:
    """The observations of one run."""

    lists: dict = field(default_factory=dict)
    answers: dict = field(default_factory=dict)
    used: dict = field(default_factory=dict)


@dataclass
class Report:
    name: str
    counts: dict = field(default_factory=dict)
    safe: int = 0
    calls: int = 0
    equal: int = 0
    varies: int = 0
    differs: list = field(default_factory=list)
    failed: str = ""
    seconds: float = 0.0


class Server:
    def __init__(self, entry, scratch):
        self.entry, self.name = entry, entry["name"]
        self.dir = scratch / re.sub(r"\W+", "-", self.name)
        self.home = self.dir / "home"

    def launch(self):
        """The command line and the environment."""
        put = lambda text: text.replace("{home}", str(self.home))
        program = self.npm() if "npm" in self.entry else self.pypi()
        if program is None:
            raise Gone("not installed")
        env = {key: put(value) for key, value in self.entry.get("env", {}).items()}
        return program + [put(arg) for arg in self.entry.get("args", [])], env

    def npm(self):
        """The package's own executable: several packages install one with the same name."""
        package = self.entry["npm"]
        for root in NODE:
            folder = root / "node_modules" / package
            if (folder / "package.json").exists():
                found = json.loads((folder / "package.json").read_text()).get("bin", {})
                found = {package.split("/")[-1]: found} if isinstance(found, str) else found
                return ["node", str(folder / found[self.entry.get("bin") or next(iter(found))])]
        return None

    def pypi(self):
        found = [root / "bin" / self.entry["pypi"] for root in PYTHON]
        return next(([str(path)] for path in found if path.exists()), None)

    def fresh(self):
        """Creates a home with only the entry's files."""
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        for name, text in self.entry.get("files", {}).items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if self.entry.get("git"):
            git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
            at = "1700000000 +0000"
            stamp = {**os.environ, "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
            for args in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
                subprocess.run(git + args, cwd=self.home, env=stamp, check=True)

    def environment(self, more):
        base = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        return {**base, **more}

    def bare(self):
        self.fresh()
        command, env = self.launch()
        return Client(command, self.environment(env), self.home)

    def through(self):
        self.fresh()
        command, env = self.launch()
        config = {
            "toolMode": "direct",
            "toolboxes": {
                "zoo": {
                    "description": "One real server",
                    "mcpServers": {
                        "it": {
                            "command": command[0],
                            "args": command[1:],
                            "cwd": str(self.home),
                            "env": env,
                            "startupTimeoutMs": START_SECONDS * 1000,
                            "callTimeoutMs": CALL_SECONDS * 2000,
                        }
                    },
                }
            },
        }
        path = self.dir / "workbench.json"
        path.write_text(json.dumps(config))
        command = [str(WORKBENCH), "serve", "--config", str(path)]
        cache = {"WORKBENCH_CACHE_DIR": str(self.dir / "cache")}
        return Client(command, self.environment(cache), self.home)


def look(client, plan=None, wanted=None, is_through=False):
    """Lists everything and calls the safe tools. The first run plans the calls for the others."""
    seen = Seen()
    client.initialize()
    until = time.monotonic() + START_SECONDS
    while True:
        for kind, method, member in LISTS:
            seen.lists[kind] = client.list(method, member)
        # Through the workbench, a slow server's tools appear later.
        is_whole = wanted is None or all(
            len(seen.lists[kind]) >= len(entries) for kind, entries in wanted.lists.items()
        )
        if is_whole or time.monotonic() > until:
            break
        time.sleep(0.5)
    if plan is None:
        plan = {}
        for text in seen.lists["tools"]:
            tool = json.loads(text)
            if is_safe(tool, client.skipped):
                plan[tool["name"]] = tries(tool)
    for name, kinds in plan.items():
        for kind, arguments in kinds.items():
            params = {"name": name}
            if arguments is not None:
                params["arguments"] = arguments
            seen.answers[name, kind] = told(client, params)
            if is_through and kind == "wrong":
                tool = {"toolbox": "zoo", "server": "it", "tool": name}
                params = {"name": "use_tool", "arguments": {"tool": tool, "arguments": arguments}}
                seen.used[name, kind] = told(client, params)
    return seen, plan


def told(client, params):
    try:
        answer = client.request("tools/call", params)
    except Gone as why:
        raise Gone(f"in a call of {params['name']}: {why}") from why
    kind = "result" if "result" in answer else "error"
    return f"{kind} {answer[kind]}"


def without_hint(text):
    """A result of `use_tool` without the hint that the workbench may append to an error."""
    kind, raw = text.split(" ", 1)
    value = json.loads(raw)
    if kind == "error":
        data = value.get("data")
        if isinstance(data, dict) and "possible cause: " in str(data.get("hint")):
            del data["hint"]
            if not data:
                del value["data"]
    elif value.get("isError") is True and value.get("content"):
        if "possible cause: " in str(value["content"][-1].get("text")):
            value["content"].pop()
    return kind, value


def parsed(text):
    kind, raw = text.split(" ", 1)
    return kind, json.loads(raw)


def compare(report, first, through, second):
    """Compares the workbench's run with both direct runs."""
    differs = []
    for kind, entries in first.lists.items():
        report.counts[kind] = len(entries)
        if through.lists[kind] != entries and through.lists[kind] != second.lists[kind]:
            if [masked(e) for e in entries] == [masked(e) for e in second.lists[kind]]:
                if [masked(e) for e in entries] != [masked(e) for e in through.lists[kind]]:
                    differs.append((kind, "\n".join(entries), "\n".join(through.lists[kind])))
            else:
                report.varies += 1
    for key, answer in first.answers.items():
        report.calls += 1
        ours, again = through.answers[key], second.answers[key]
        same = masked(ours) in (masked(answer), masked(again))
        if same and key in through.used:
            used = masked(json.dumps(without_hint(through.used[key])))
            bare = [masked(json.dumps(parsed(text))) for text in (answer, again)]
            same = used in bare or masked(answer) != masked(again)
        if same:
            report.equal += 1
        elif masked(answer) != masked(again):
            report.varies += 1
        else:
            differs.append((" ".join(key), answer, through.used.get(key, "") + "\n" + ours))
    return differs


def examine(entry, scratch):
    report, began = Report(entry["name"]), time.monotonic()
    server = Server(entry, scratch)

    def run(start, **more):
        client = start()
        client.skipped = set(entry.get("skip", []))
        try:
            return look(client, **more)
        finally:
            client.close()

    try:
        first, plan = run(server.bare)
        report.safe = len(plan)
        for attempt in range(TRIES):
            through, _ = run(server.through, plan=plan, wanted=first, is_through=True)
            second, _ = run(server.bare, plan=plan)
            fresh = Report(entry["name"], safe=len(plan))
            fresh.differs = compare(fresh, first, through, second)
            report = fresh
            if not fresh.differs:
                break
            # Retry: other values may vary in the next run.
            first = second
    except (Gone, OSError, ValueError, subprocess.SubprocessError) as error:
        report.failed = str(error) or repr(error)
    report.seconds = time.monotonic() - began
    return report


def without_network(arguments):
    """Restarts in a network namespace with only loopback. Returns False if that isn't possible."""
    if os.environ.get("ZOO_IS_ALONE") or arguments.network:
        return os.environ.get("ZOO_IS_ALONE") is not None
    alone = {**os.environ, "ZOO_IS_ALONE": "1"}
    if not shutil.which("unshare"):
        return False
    probe = subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        return False
    os.execvpe("unshare", ["unshare", "-n", sys.executable, *sys.argv], alone)


def raise_loopback():
    get, set_, up = 0x8913, 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as at:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(at, get, request))[1]
        fcntl.ioctl(at, set_, struct.pack("16sh14x", b"lo", flags | up))


def line(cells):
    return "{:<50} {:>6} {:>8} {:>10} {:>10} {:>6} {:>6} {:>6} {:>7} {:>8} {:>6}".format(*cells)


def configured(entries, scratch):
    """Writes a configuration of all servers, each with its own home; returns its path."""
    servers = {}
    for entry in entries:
        server = Server(entry, scratch)
        server.fresh()
        command, env = server.launch()
        servers[re.sub(r"\W+", "-", server.name).strip("-")] = {
            "command": command[0],
            "args": command[1:],
            "cwd": str(server.home),
            "env": server.environment(env),
            "startupTimeoutMs": START_SECONDS * 1000,
        }
    path = scratch / "workbench.json"
    toolboxes = {"zoo": {"description": "Real servers", "mcpServers": servers}}
    path.write_text(json.dumps({"toolboxes": toolboxes}))
    return path


def lock(entries, folder):
    """Writes a lock file of all servers to the folder, or compares them with the existing one."""
    folder.mkdir(parents=True, exist_ok=True)
    config, kept = configured(entries, folder), folder / "workbench.lock"
    check = ["--check"] if kept.exists() else []
    env = {**os.environ, "WORKBENCH_CACHE_DIR": str(folder / "cache")}
    command = [str(WORKBENCH), "lock", *check, "--config", str(config)]
    sys.exit(subprocess.run(command, env=env, check=False).returncode)


def free_port():
    with socket.socket() as at:
        at.bind(("127.0.0.1", 0))
        return at.getsockname()[1]


def list_with_sdk(client, url):
    """Returns the names of the tools, or the error."""
    client = [client[0], str(ROOT / "tests/clients" / client[1]), *client[2:], "zoo", "--", url]
    try:
        done = subprocess.run(client, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "no response in time"
    if done.returncode != 0:
        return f"exited with {done.returncode}: {done.stderr[-400:]}"
    return json.loads(done.stdout)["tools"]


def list_in_mode(path, mode, scratch):
    """Lists everything with each official SDK through one workbench. Returns the tools by SDK, or the error."""
    port, seen = free_port(), {}
    command = [str(WORKBENCH), "serve", "--config", str(path), "--http", f"127.0.0.1:{port}", "--tool-mode", mode]
    env = {**os.environ, "WORKBENCH_CACHE_DIR": str(scratch / "cache")}
    with open(scratch / f"{mode}.log", "wb") as log:
        workbench = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if time.monotonic() > until or workbench.poll() is not None:
                    return {"workbench": "it does not listen"}
                time.sleep(0.05)
        url = f"http://127.0.0.1:{port}/mcp"
        with concurrent.futures.ThreadPoolExecutor() as pool:
            seen = dict(zip(SDKS, pool.map(lambda client: list_with_sdk(client, url), SDKS.values())))
    finally:
        workbench.terminate()
        workbench.wait()
    return seen


def list_with_sdks(entries, scratch, tools):
    """Lists all servers together with the official SDKs in every mode. Returns the number of failures."""
    bad = 0
    path = configured(entries, scratch)
    env = {**os.environ, "WORKBENCH_CACHE_DIR": str(scratch / "cache")}
    # The other modes then need not start the servers.
    subprocess.run([str(WORKBENCH), "check", "--connect", "--config", str(path)], env=env, capture_output=True, check=False)
    for mode in MODES:
        seen = list_in_mode(path, mode, scratch)
        for sdk, found in seen.items():
            if isinstance(found, str):
                bad += 1
                print(f"{mode}, {sdk}: {found}", flush=True)
            elif not found or (mode == "direct" and len(found) != tools):
                bad += 1
                print(f"{mode}, {sdk}: {len(found)} tools, expected {tools}", flush=True)
    print(f"official SDKs list in {len(MODES)} modes: {bad} failures")
    return bad


def count_findings(entries, scratch):
    """Runs `check --connect` on all servers and counts its findings by rule."""
    path = configured(entries, scratch)
    command = [str(WORKBENCH), "check", "--connect", "--json", "--config", str(path)]
    env = {**os.environ, "WORKBENCH_CACHE_DIR": str(scratch / "cache")}
    report = json.loads(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=False).stdout)
    started = [row for row in report["servers"] if row["status"] == "started"]
    findings = report.get("findings", [])
    for found in findings:
        name = found.get("name", "")
        print(f"{found['rule']} ({found['severity']}): {found['server']}, {found['kind']} {name}")
        print(f"    {found['pointer']} at {found['offset']}: {found['excerpt']}")
    rules = [found["rule"] for found in findings]
    for rule in sorted(set(rules)):
        print(f"{rule:<24}{rules.count(rule):>4}")
    tools = sum(row["tools"] for row in started)
    count = len(findings) + report.get("more_findings", 0)
    print(f"{len(started)} of {len(entries)} servers, {tools} tools, {count} findings")


def main():
    global NODE, PYTHON
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these servers [default: all]")
    parser.add_argument("--sample", action="store_true", help="only the ten servers that CI tests")
    parser.add_argument("--network", action="store_true", help="give servers access to the network")
    parser.add_argument("--jobs", type=int, default=2, help="number of servers to test in parallel [default: 2]")
    parser.add_argument("--show", action="store_true", help="print differences in full")
    parser.add_argument("--findings", action="store_true", help="count the findings of `check --connect` about definitions")
    parser.add_argument("--lock", metavar="FOLDER", type=Path, help="write a workbench.lock to this folder, or compare with it")
    arguments = parser.parse_args()
    is_alone = without_network(arguments)
    if is_alone:
        raise_loopback()
    NODE = [ENVIRONMENTS / name for name in ("zoo/node", "zoo-sample", "node")]
    PYTHON = [ENVIRONMENTS / name for name in ("zoo/python", "python")]
    entries = json.loads((HERE / "servers.json").read_text())["servers"]
    if arguments.sample:
        entries = [entry for entry in entries if entry.get("sample")]
    if arguments.names:
        entries = [entry for entry in entries if entry["name"] in arguments.names]
    if not entries:
        sys.exit("error: no such server in tests/zoo/servers.json")
    if not WORKBENCH.exists():
        sys.exit(f"error: {WORKBENCH} not found; run `cargo build` first")
    if arguments.lock:
        return lock(entries, arguments.lock.absolute())
    if arguments.findings:
        with tempfile.TemporaryDirectory(prefix="zoo-") as scratch:
            return count_findings(entries, Path(scratch))
    network = "only loopback" if is_alone else "this machine's network"
    print(f"network of the servers: {network}")
    print(line([
        "server", "tools", "prompts", "resources", "templates",
        "safe", "calls", "equal", "varies", "differs", "s",
    ]))
    total = Report("total")
    with tempfile.TemporaryDirectory(prefix="zoo-") as scratch:
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            running = [pool.submit(examine, entry, Path(scratch)) for entry in entries]
            reports = []
            for done in concurrent.futures.as_completed(running):
                report = done.result()
                reports.append(report)
                if report.failed:
                    print(f"{report.name:<50} failed: {report.failed}", flush=True)
                    continue
                show(report)
                for kind, *both in report.differs:
                    limit = None if arguments.show else 400
                    for who, text in zip(("direct ", "through"), both):
                        print(f"    {kind} {who} {text[:limit]}", flush=True)
    good = [report for report in reports if not report.failed]
    for report in good:
        for kind, count in report.counts.items():
            total.counts[kind] = total.counts.get(kind, 0) + count
        for key in ("safe", "calls", "equal", "varies", "seconds"):
            setattr(total, key, getattr(total, key) + getattr(report, key))
        total.differs += report.differs
    show(total)
    bad = len(total.differs) + len(reports) - len(good)
    if arguments.sample:
        with tempfile.TemporaryDirectory(prefix="zoo-") as scratch:
            bad += list_with_sdks(entries, Path(scratch), total.counts.get("tools", 0))
    print(f"{len(good)} of {len(entries)} servers compared; {len(total.differs)} differences")
    sys.exit(1 if bad else 0)


def show(report):
    counts = [report.counts.get(kind, 0) for kind, _, _ in LISTS]
    checked = [report.safe, report.calls, report.equal, report.varies, len(report.differs)]
    print(line([report.name, *counts, *checked, round(report.seconds)]), flush=True)


if __name__ == "__main__":
    main()
