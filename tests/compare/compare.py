"""`just compare`: compares the workbench with other MCP gateways, in one run on one machine.

Each gateway gets the same ten real servers. `MEASURES` lists the measurements, and `README.md` explains
the figures. The script doesn't rank the gateways.
"""

import argparse
import datetime
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import peers as known
import report
from agent import Agent, Gone, OverSse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "results.json")
PAGE = os.path.join(HERE, "README.md")
# The first call to measure, and a search query for its tool.
FIRST = ("memory", "search_nodes", '{"query":"Vell"}')
WORDS = "search the knowledge graph for nodes"
# The workbench modes included in measurements of tool calls.
CALLED = ["auto", "search", "direct"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    binary = os.path.join(ROOT, "target/release/mcp-workbench")
    parser.add_argument("--binary", default=binary, help="executable of the workbench")
    parser.add_argument("--env", default=os.path.join(ROOT, ".test-env"), help="folder with the installed gateways")
    parser.add_argument("--only", action="append", help="only gateways whose name contains this (repeatable)")
    parser.add_argument("--rounds", type=int, default=3, help="starts per gateway")
    parser.add_argument(
        "--measure", action="append", choices=list(MEASURES), help="only this measurement; keep other results (repeatable)"
    )
    parser.add_argument("--write", action="store_true", help="write results.json and README.md")
    return parser.parse_args()


class World:
    """State shared by all measurements: gateways, servers, folders, and marks that identify processes."""

    def __init__(self, args):
        self.args = args
        self.folder = tempfile.mkdtemp(prefix="mcp-workbench-compare-")
        self.work = os.path.join(self.folder, "work")
        self.servers, toolboxes = self.ten()
        ours = [known.Workbench(os.path.abspath(args.binary), mode, toolboxes) for mode in known.OWN_MODES]
        self.peers = [peer for peer in ours + known.others(args.env) if self.is_wanted(peer)]
        self.probe = {"command": "node", "args": [os.path.join(HERE, "probe.mjs")], "env": {}}
        self.marks = {}

    def is_wanted(self, peer):
        return not self.args.only or any(part.lower() in peer.name.lower() for part in self.args.only)

    def ten(self):
        """The published servers of `just agents`, with their working directory."""
        code = (
            "import {prepare, servers, TOOLBOXES} from '%s/tests/agents/servers.mjs';"
            "prepare(process.argv[2], process.argv[1] + '/agents-python/bin/python');"
            "console.log(JSON.stringify([servers(process.argv[1], process.argv[2]), TOOLBOXES]))" % ROOT
        )
        env = os.path.join(ROOT, ".test-env")
        command = ["node", "--input-type=module", "-e", code, env, self.work]
        servers, toolboxes = json.loads(subprocess.check_output(command))
        del servers["orders"]
        toolboxes["data"]["servers"].remove("orders")
        return {name: {"env": {}, **server} for name, server in servers.items()}, toolboxes

    def start(self, peer, servers, key):
        """Starts a gateway in a folder that starts with the same `key` share."""
        # Keep the environment the same between starts: a gateway's server cache may depend on it.
        mark = self.marks.setdefault((peer.name, key), f"{os.getpid()}-{len(self.marks)}-")
        folder = os.path.join(self.folder, "".join(c if c.isalnum() else "_" for c in f"{peer.name}-{key}"))
        os.makedirs(folder, exist_ok=True)
        marked = {
            name: {**server, "env": {**server.get("env", {}), "COMPARE_SERVER": mark}}
            for name, server in servers.items()
        }
        command = peer.command(folder, marked)
        env = {"PATH": os.environ["PATH"], "HOME": folder, "LANG": "C.UTF-8", "COMPARE_RUN": mark}
        # FastMCP checks for updates at every start.
        env |= {"FASTMCP_CHECK_FOR_UPDATES": "off"}
        return command, env, folder, mark

    def agent(self, peer, servers, key):
        command, env, folder, mark = self.start(peer, servers, key)
        agent = peer.agent(command, env, folder)
        agent.mark = mark
        return agent


def processes(mark):
    """The gateway's own processes and its servers' processes."""
    own, servers = [], []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                text = file.read()
            with open(f"/proc/{pid}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state == "Z":
            continue
        if f"COMPARE_SERVER={mark}".encode() in text:
            servers.append(int(pid))
        elif f"COMPARE_RUN={mark}".encode() in text:
            own.append(int(pid))
    return own, servers


def pss(pids):
    """The proportional set size in MB."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            total += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return round(total / 1024, 1)


def clear(mark):
    for pids in processes(mark):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def call(agent, peer, server, tool, text, patience=60):
    """Calls a tool; returns the raw response line."""
    name, text = peer.call(server, tool, text)
    return agent.raw("tools/call", '{"name":%s,"arguments":%s}' % (json.dumps(name), text), patience)


def learn(agent, peer, server, tool, patience=60, words=WORDS):
    """Sends the requests that a model needs before the call; returns the size of the responses."""
    size = 0
    for name, given in peer.learn(server, tool, words):
        result = agent.ask("tools/call", {"name": name, "arguments": given}, patience)
        text = json.dumps(result.get("content"), ensure_ascii=False, separators=(",", ":"))
        size += len(text.encode())
    if size and tool not in text:
        raise Gone(f"`{tool}` is not available yet: {text[:100]}")
    return size


def called(agent, peer, server, tool, text, patience=60):
    """Repeats a call until it succeeds: some gateways start their servers in the background."""
    until = time.perf_counter() + patience
    while True:
        line = call(agent, peer, server, tool, text, max(1, until - time.perf_counter()))
        answer = json.loads(line)
        if "error" not in answer and not answer["result"].get("isError"):
            return line
        if time.perf_counter() > until:
            raise Gone(line[:200])
        time.sleep(0.1)


def is_called(peer):
    return not isinstance(peer, known.Workbench) or peer.mode in CALLED


def size_of(tools, instructions):
    return len(json.dumps(tools, ensure_ascii=False, separators=(",", ":")).encode()) + len(instructions.encode())


# --- measurements ------------------------------------------------------------------------------


def starts(world, results):
    """Ten servers: size of the definitions that the model sees, startup time, memory and processes."""
    for peer in world.peers:
        for key in ("first list, ms", "first call, ms"):
            results[peer.name].pop(key, None)
    for turn in range(world.args.rounds):
        for peer in world.peers:
            row = results[peer.name]
            agent = world.agent(peer, world.servers, "ten")
            try:
                instructions = agent.begin()
                tools = agent.tools()
                row.setdefault("first list, ms", []).append(round((time.perf_counter() - agent.started) * 1000))
                if is_called(peer):
                    asked = learn_soon(agent, peer)
                    line = called(agent, peer, *FIRST)
                    assert "Ilka Soren" in line, line
                    since = round((time.perf_counter() - agent.started) * 1000)
                    row.setdefault("first call, ms", []).append(since)
                    row["discovery, bytes"] = asked
                if turn == world.args.rounds - 1:
                    time.sleep(5)
                    own, servers = processes(agent.mark)
                    row["memory, MB"] = pss(own)
                    row["own processes"], row["server processes"] = len(own), len(servers)
                    tools = tools if peer.learn(*FIRST[:2], WORDS) else agent.tools()
                row["tools"], row["initial context, bytes"] = len(tools), size_of(tools, instructions)
            except (Gone, AssertionError) as why:
                row.setdefault("failed", []).append(f"start: {why}"[:300])
            finally:
                agent.end()
                time.sleep(1)
                clear(agent.mark)
            say(peer, "start", row)


def learn_soon(agent, peer, patience=60):
    """Repeats `learn` until it succeeds: some gateways start their servers in the background."""
    until = time.perf_counter() + patience
    while True:
        try:
            return learn(agent, peer, *FIRST[:2], patience)
        except Gone:
            if time.perf_counter() > until:
                raise
            time.sleep(0.1)


def latency(world, results):
    """200 calls of `echo` per gateway, interleaved, and 200 without a gateway."""
    two = {"probe": world.probe, "spare": world.probe}
    direct = known.Direct()
    running = [(direct, world.agent(direct, {"probe": world.probe}, "one"))]
    for peer in filter(is_called, world.peers):
        running.append((peer, world.agent(peer, two, "two")))
    taken = {peer.name: [] for peer, _ in running}
    for peer, agent in list(running):
        try:
            agent.begin()
            agent.tools()
            learn_probe(agent, peer)
            called(agent, peer, "probe", "echo", '{"text":"hi"}')
        except Gone as why:
            results[peer.name].setdefault("failed", []).append(f"latency: {why}"[:300])
            running.remove((peer, agent))
    for _ in range(20):
        for peer, agent in running:
            for _ in range(10):
                since = time.perf_counter()
                call(agent, peer, "probe", "echo", '{"text":"hi"}')
                taken[peer.name].append(time.perf_counter() - since)
    base = statistics.median(taken[direct.name])
    for peer, agent in running:
        median = statistics.median(taken[peer.name])
        row = results.setdefault(peer.name, {})
        row["call, ms"], row["call, times direct"] = round(median * 1000, 3), round(median / base, 1)
        agent.end()
        clear(agent.mark)
        say(peer, "latency", row)


def learn_probe(agent, peer):
    until = time.perf_counter() + 30
    while True:
        try:
            return learn(agent, peer, "probe", "echo", 20, "test pass-through: echo")
        except Gone:
            if time.perf_counter() > until:
                raise
            time.sleep(0.1)


def kills(world, results):
    """Kills the agent with SIGKILL and counts the processes left after five seconds."""
    for peer in filter(is_called, world.peers):
        command, env, folder, mark = world.start(peer, world.servers, "ten")
        ready = [*peer.learn(*FIRST[:2], WORDS), peer.call(*FIRST)]
        told = json.dumps([ready, peer.agent.__name__, command, env, folder])
        holder = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--hold", told], stdout=subprocess.PIPE, text=True
        )
        holder.stdout.readline()
        time.sleep(8)
        before = sum(map(len, processes(mark)))
        holder.kill()
        holder.wait()
        time.sleep(5)
        own, servers = processes(mark)
        row = results[peer.name]
        row["left after kill"] = f"{len(own) + len(servers)} of {before}"
        clear(mark)
        say(peer, "kill", row)


def hold(told):
    """Runs an agent that initializes, lists and calls tools, then waits to be killed."""
    calls, kind, *given = json.loads(told)
    agent = {"Agent": Agent, "OverSse": OverSse}[kind](*given)
    agent.begin()
    agent.tools()
    for name, given in calls:
        given = given if isinstance(given, str) else json.dumps(given)
        agent.raw("tools/call", '{"name":%s,"arguments":%s}' % (json.dumps(name), given))
    print("ready", flush=True)
    time.sleep(600)


def bad(world, results):
    """One of ten servers doesn't start: it exits immediately or never responds."""
    for kind, entry in {"exiting": ["false"], "unresponsive": ["sleep", "600"]}.items():
        servers = {**world.servers, "fetch": {"command": entry[0], "args": entry[1:], "env": {}}}
        for peer in filter(is_called, world.peers):
            agent = world.agent(peer, servers, f"bad-{kind}")
            row = results[peer.name]
            try:
                agent.begin(60)
                agent.tools(60)
                listed = time.perf_counter() - agent.started
                learn_soon(agent, peer, 30)
                called(agent, peer, *FIRST, 30)
                row[f"{kind} server, s"] = [round(listed, 1), round(time.perf_counter() - agent.started, 1)]
            except Gone as why:
                row[f"{kind} server, s"] = None
                row.setdefault("failed", []).append(f"{kind} server: {why}"[:300])
            finally:
                agent.end()
                clear(agent.mark)
            say(peer, kind, row)


def passing(world, results):
    """Which content passes through unchanged, and whether changes to the tool list are forwarded."""
    two = {"probe": world.probe, "spare": world.probe}
    for peer in filter(is_called, world.peers):
        row = results[peer.name]
        agent = world.agent(peer, two, "two")
        kept = {}
        try:
            agent.begin()
            agent.tools()
            learn_probe(agent, peer)
            called(agent, peer, "probe", "echo", "{}")
            for what, tool, text in [
                ("unknown member", "unknown", None),
                ("`_meta`", "meta", None),
                ("`structuredContent`", "structured", None),
                ("large integer in result", "big", "12345678901234567890"),
                ("1e400 in result", "huge", "1e400"),
                ("large integer in arguments", "received", "12345678901234567890"),
                ("1e400 in arguments", "received", "1e400"),
                ("error code and data", "fail", None),
            ]:
                try:
                    given = '{"n":%s}' % text if tool == "received" else "{}"
                    line = call(agent, peer, "probe", tool, given, 15)
                except Gone:
                    kept[what] = "no response"
                    continue
                kept[what] = "yes" if has_kept(json.loads(line), line, tool, text) else "no"
            before = len(agent.notified)
            call(agent, peer, "probe", "grow", "{}", 15)
            time.sleep(2)
            told = "notifications/tools/list_changed" in agent.notified[before:]
            line = call(agent, peer, "probe", "grown", '{"text":"new"}', 15)
            works = "error" not in line and '"isError":true' not in line
            kept["new tool announced"], kept["new tool callable"] = ["no", "yes"][told], ["no", "yes"][works]
        except Gone as why:
            row.setdefault("failed", []).append(f"passing: {why}"[:300])
        finally:
            agent.end()
            clear(agent.mark)
        row["passes"] = kept
        say(peer, "passing", row)


def has_kept(answer, line, tool, text):
    """True if the content is where a client expects it, not embedded in another text."""
    result = answer.get("result", {})
    if tool == "unknown":
        return result.get("x-unknown") == {"kept": True}
    if tool == "meta":
        return (result.get("_meta") or {}).get("example.com/kept") == {"a": [1, None]}
    if tool == "structured":
        return result.get("structuredContent") == {"a": {"b": [1, "x"]}}
    if tool in ("big", "huge"):
        return "structuredContent" in result and f'"n":{text}}}' in line.replace(" ", "")
    if tool == "fail":
        error = answer.get("error", {})
        return error.get("code") == -32050 and error.get("data") == {"kept": "yes"}
    # The result quotes the received arguments as text, escaped once or twice.
    return f'"n\\":{text}' in line.replace("\\\\\\", "\\").replace(" ", "")


def say(peer, what, row):
    rest = {key: value for key, value in row.items() if key != "passes" or what == "passing"}
    print(f"{time.strftime('%H:%M:%S')} {peer.name}: {what}: {json.dumps(rest)}", file=sys.stderr, flush=True)


MEASURES = {"latency": latency, "passing": passing, "starts": starts, "kills": kills, "bad": bad}


def before(args):
    """Earlier results, if only some measurements run."""
    if not args.measure or not os.path.exists(RESULTS):
        return {}
    with open(RESULTS, encoding="utf-8") as file:
        return json.load(file)


def main():
    if sys.argv[1:2] == ["--hold"]:
        return hold(sys.argv[2])
    args = arguments()
    world = World(args)
    kept = before(args)
    results = kept.get("programs", {})
    for peer in world.peers:
        results.setdefault(peer.name, {})["version"] = peer.version
    load = kept.get("load", []) + [os.getloadavg()[0]]
    try:
        for name in args.measure or MEASURES:
            MEASURES[name](world, results)
            load.append(os.getloadavg()[0])
    finally:
        shutil.rmtree(world.folder, ignore_errors=True)
    all = {
        "date": datetime.date.today().isoformat(),
        "processors": os.cpu_count(),
        "load": [round(one, 1) for one in load],
        "programs": results,
    }
    text = json.dumps(all, indent=1) + "\n"
    if not args.write:
        return print(text)
    with open(RESULTS, "w", encoding="utf-8") as file:
        file.write(text)
    report.write(all, PAGE)


if __name__ == "__main__":
    main()
