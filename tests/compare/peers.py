"""The compared gateways: their configuration, their command, and their way of calling tools."""

import json
import os
import socket

from agent import Agent, OverSse

OWN_MODES = ["auto", "dynamic", "proxy", "search", "navigate", "activate", "modular", "direct"]


class Peer:
    """A gateway. `files` writes its configuration to a folder and returns its command."""

    name = version = ""
    # The client class for its transport.
    agent = Agent
    # The separator between server and tool, for gateways that list tools directly.
    joint = "_"

    def command(self, folder, servers):
        raise NotImplementedError

    def learn(self, server, tool, words):
        """The calls that a model needs to learn how to call the tool, as pairs of name and arguments."""
        return []

    def call(self, server, tool, arguments):
        """The name of the tool to call, and its arguments as JSON text."""
        return f"{server}{self.joint}{tool}", arguments


def write(folder, name, value):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(value if isinstance(value, str) else json.dumps(value, indent=1))
    return path


class Direct(Peer):
    """A single server without a gateway."""

    name = "direct connection"

    def command(self, folder, servers):
        [server] = servers.values()
        return [server["command"], *server["args"]]

    def call(self, server, tool, arguments):
        return tool, arguments


class Workbench(Peer):
    def __init__(self, binary, mode, toolboxes):
        self.binary, self.mode, self.toolboxes = binary, mode, toolboxes
        self.name = f"MCP Workbench, `{mode}`"
        self.of = {server: box for box, own in toolboxes.items() for server in own["servers"]}

    def command(self, folder, servers):
        boxes = {}
        for name, server in servers.items():
            box = self.of.get(name, "others")
            about = self.toolboxes.get(box, {}).get("description", "Test servers")
            boxes.setdefault(box, {"description": about, "mcpServers": {}})["mcpServers"][name] = server
        path = write(folder, "workbench-config.json", {"toolMode": self.mode, "toolboxes": boxes})
        return [self.binary, "--config", path, "--cache-dir", os.path.join(folder, "cache")]

    def box(self, server):
        return self.of.get(server, "others")

    def learn(self, server, tool, words):
        return {
            "auto": [("open_toolbox", {"toolbox": self.box(server)})],
            "dynamic": [("open_toolbox", {"toolbox": self.box(server)})],
            "proxy": [("open_toolbox", {"toolbox": self.box(server)})],
            "search": [("search_tools", {"queries": [words]})],
            "modular": [("get-modular-tools", {"group": self.box(server)})],
        }.get(self.mode, [])

    def call(self, server, tool, arguments):
        box = json.dumps(self.box(server))
        if self.mode in ("auto", "proxy", "search"):
            place = '{"toolbox":%s,"server":"%s","tool":"%s"}' % (box, server, tool)
            return "use_tool", '{"tool":%s,"arguments":%s}' % (place, arguments)
        if self.mode == "modular":
            return "call-modular-tool", '{"group":%s,"name":"%s","args":%s}' % (box, tool, arguments)
        if self.mode == "dynamic":
            return f"{self.box(server)}__{server}__{tool}", arguments
        return tool, arguments


class Modular(Peer):
    name, version = "Modular MCP", "0.0.5"

    def __init__(self, env):
        self.program = os.path.join(env, "compare/node_modules/.bin/modular-mcp")

    def command(self, folder, servers):
        own = {name: {**server, "description": name} for name, server in servers.items()}
        return [self.program, write(folder, "modular-mcp.json", {"mcpServers": own})]

    def learn(self, server, tool, words):
        return [("get-modular-tools", {"group": server})]

    def call(self, server, tool, arguments):
        return "call-modular-tool", '{"group":"%s","name":"%s","args":%s}' % (server, tool, arguments)


class Slop(Peer):
    name, version = "slop-mcp", "0.15.0"

    def __init__(self, env):
        package = os.path.join(env, "compare/node_modules/@standardbeagle/slop-mcp")
        self.program = os.path.join(package, "binaries/slop-mcp-linux-amd64")

    def command(self, folder, servers):
        lines = []
        for name, server in servers.items():
            lines += [f'mcp "{name}" {{', '    type "stdio"', f'    command {json.dumps(server["command"])}']
            if server["args"]:
                lines.append("    args " + " ".join(json.dumps(arg) for arg in server["args"]))
            lines.append("    env {")
            lines += [f"        {json.dumps(key)} {json.dumps(value)}" for key, value in server["env"].items()]
            lines += ["    }", "}"]
        write(folder, ".slop-mcp.kdl", "\n".join(lines) + "\n")
        return [self.program, "serve"]

    def learn(self, server, tool, words):
        one = {"mcp_name": server, "tool_name": tool}
        return [("search_tools", {"query": words}), ("get_metadata", one)]

    def call(self, server, tool, arguments):
        text = '{"mcp_name":"%s","tool_name":"%s","parameters":%s}' % (server, tool, arguments)
        return "execute_tool", text


class Lazy(Peer):
    name, version = "lazy-mcp", "2.7.2"

    def __init__(self, env):
        self.program = os.path.join(env, "compare-python/bin/lazy-mcp")

    def command(self, folder, servers):
        own = [
            {"name": name, "description": name, "command": [server["command"], *server["args"]], "env": server["env"]}
            for name, server in servers.items()
        ]
        return [self.program, "--config", write(folder, "servers.json", {"servers": own})]

    def learn(self, server, tool, words):
        one = {"server": server, "command_names": [tool]}
        return [("list_servers", {}), ("list_commands", {"server": server}), ("describe_commands", one)]

    def call(self, server, tool, arguments):
        text = '{"server":"%s","command_name":"%s","parameters":%s}' % (server, tool, arguments)
        return "invoke_command", text


class Compressor(Peer):
    name, version = "mcp-compressor", "0.38.2"

    def __init__(self, env):
        self.program = os.path.join(env, "compare-python/bin/mcp-compressor")

    def command(self, folder, servers):
        return [self.program, "--config", write(folder, "mcp.json", {"mcpServers": servers})]

    def learn(self, server, tool, words):
        return [(f"{server}_get_tool_schema", {"tool_name": tool})]

    def call(self, server, tool, arguments):
        return f"{server}_invoke_tool", '{"tool_name":"%s","tool_input":%s}' % (tool, arguments)


class FastMcp(Peer):
    name, version = "FastMCP's proxy", "4.1.2"

    def __init__(self, env):
        self.program = os.path.join(env, "compare-python/bin/fastmcp")

    def command(self, folder, servers):
        file = write(folder, "mcp.json", {"mcpServers": servers})
        return [self.program, "run", file, "--no-banner", "--log-level", "ERROR"]

    def call(self, server, tool, arguments):
        return f"{server}_{tool}", arguments


class Hub(Peer):
    """A standalone gateway that agents reach over HTTP."""

    name, version = "mcp-hub", "4.2.1"
    agent = OverSse

    def __init__(self, env):
        self.program = os.path.join(env, "compare/node_modules/.bin/mcp-hub")

    def command(self, folder, servers):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        return [self.program, "--port", str(port), "--config", write(folder, "servers.json", {"mcpServers": servers})]

    def call(self, server, tool, arguments):
        return f"{server}__{tool}", arguments


def others(env):
    return [Modular(env), Slop(env), Lazy(env), Compressor(env), FastMcp(env), Hub(env)]
