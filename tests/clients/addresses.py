"""Tests resource URIs with the official Python SDK v1, which rejects a whole response if one URI is invalid. Lists
resources and templates, reads the listed resources, and calls the given tools. Prints JSON lines.

    python addresses.py <tool>... -- <command> [argument...]
"""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def say(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def address(block):
    """The URI of a content block, if it has one."""
    holder = getattr(block, "resource", block)
    uri = getattr(holder, "uri", None)
    return uri and str(uri)


async def main(tools, command):
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with stdio_client(parameters) as (reading, writing):
        async with ClientSession(reading, writing) as client:
            await client.initialize()
            listed = [resource.uri for resource in (await client.list_resources()).resources]
            say("resources", uris=[str(uri) for uri in listed])
            templates = (await client.list_resource_templates()).resourceTemplates
            say("templates", uris=[template.uriTemplate for template in templates])
            for uri in listed:
                contents = (await client.read_resource(uri)).contents
                say("read", asked=str(uri), uris=[str(content.uri) for content in contents])
            for tool in tools:
                result = await client.call_tool(tool, {})
                found = [address(block) for block in result.content]
                say("called", tool=tool, uris=[uri for uri in found if uri])
    say("closed")


if __name__ == "__main__":
    end = sys.argv.index("--")
    asyncio.run(main(sys.argv[1:end], sys.argv[end + 1 :]))
