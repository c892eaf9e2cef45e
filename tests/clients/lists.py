"""A client on the official Python SDK that reads every list: connects, opens the toolbox if there is a tool for it,
and prints the names in all lists as one line of JSON. Fails if the SDK rejects a list. Works with SDK 1 and 2.

    python lists.py <toolbox> -- <command> [argument...]
    python lists.py <toolbox> -- <url>
"""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager

import mcp
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


@asynccontextmanager
async def connected(command):
    is_url = command[0].startswith("http://")
    parameters = command[0]
    if not is_url:
        parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    if hasattr(mcp, "Client"):
        async with mcp.Client(parameters) as client:
            yield client
        return
    if is_url:
        from mcp.client.streamable_http import streamable_http_client

        transport = streamable_http_client(parameters)
    else:
        transport = stdio_client(parameters)
    async with transport as streams:
        async with ClientSession(streams[0], streams[1]) as client:
            await client.initialize()
            yield client


async def main(toolbox, command):
    async with connected(command) as client:
        before = (await client.list_tools()).tools
        if any(tool.name == "open_toolbox" for tool in before):
            await client.call_tool("open_toolbox", {"toolbox": toolbox})
        tools = (await client.list_tools()).tools
        prompts = (await client.list_prompts()).prompts
        resources = (await client.list_resources()).resources
        listed = await client.list_resource_templates()
        templates = getattr(listed, "resource_templates", None) or getattr(listed, "resourceTemplates", [])
        print(
            json.dumps(
                {
                    "tools": [tool.name for tool in tools],
                    "prompts": [prompt.name for prompt in prompts],
                    "resources": [str(resource.uri) for resource in resources],
                    "templates": [getattr(one, "uri_template", None) or one.uriTemplate for one in templates],
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[2] != "--":
        sys.exit("usage: <toolbox> -- <command or url>...")
    asyncio.run(main(sys.argv[1], sys.argv[3:]))
