"""An agent on the official Python SDK: connects, opens a toolbox, calls a tool, and prints its observations as JSON
lines.

    python python_client.py <mode> <toolbox> <server> <tool> <json-arguments> -- <command> [argument...]
    python python_client.py <mode> <toolbox> <server> <tool> <json-arguments> -- <url>

`dynamic` calls the tool by the name that opening the toolbox registers, `proxy` through `use_tool`, and `direct` by
its own name without opening a toolbox.
The SDK negotiates the protocol version: it probes `server/discover` and falls back to `initialize`.
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.types import Implementation, ToolListChangedNotification

LIST_CHANGED_TIMEOUT = 10


def say(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def plain(model):
    """An SDK model in its wire format."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main(mode, toolbox, server, tool, arguments, command):
    changed = asyncio.Event()

    async def on_message(message):
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    if command[0].startswith("http://"):
        parameters = command[0]
    else:
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    info = Implementation(name="python-test-agent", version="1.0.0")
    async with Client(parameters, client_info=info, message_handler=on_message) as client:

        async def names():
            return [listed.name for listed in (await client.list_tools()).tools]

        say(
            "connected",
            server=client.server_info and plain(client.server_info),
            protocol=client.protocol_version,
            instructions=client.instructions,
        )
        say("tools", names=await names())
        if mode != "direct":
            opened = await client.call_tool("open_toolbox", {"toolbox": toolbox})
            say("opened", result=plain(opened))
        if mode == "dynamic":
            await asyncio.wait_for(changed.wait(), LIST_CHANGED_TIMEOUT)
        say("tools_after", names=await names())
        if mode == "dynamic":
            name, wrapped = f"{toolbox}__{server}__{tool}", arguments
        elif mode == "direct":
            name, wrapped = tool, arguments
        else:
            path = {"toolbox": toolbox, "server": server, "tool": tool}
            name, wrapped = "use_tool", {"tool": path, "arguments": arguments}
        say("called", name=name, result=plain(await client.call_tool(name, wrapped)))
    say("closed")


if __name__ == "__main__":
    if len(sys.argv) < 8 or sys.argv[1] not in ("dynamic", "proxy", "direct") or sys.argv[6] != "--":
        sys.exit(
            "usage: <dynamic|proxy|direct> <toolbox> <server> <tool> <json-arguments> -- <command or url>..."
        )
    asyncio.run(main(*sys.argv[1:5], json.loads(sys.argv[5]), sys.argv[7:]))
