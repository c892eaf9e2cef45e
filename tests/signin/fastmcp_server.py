"""A FastMCP server that is its own authorization server, for tests.

Prints its addresses as a line of JSON, and exits when its stdin closes. Endpoints in addition to MCP:
  /browse?url=…    a browser whose user consents: returns the final URL and the page's text
  /set?ttl=…       sets the lifetime of new tokens, in seconds
  /counts          requests to the authorization server and calls of the tool
"""

import asyncio
import json
import os
import socket
import sys
import threading

import httpx2
import uvicorn
from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions, RevocationOptions
from fastmcp.server.auth.providers import in_memory
from fastmcp.server.dependencies import get_access_token
from starlette.requests import Request
from starlette.responses import JSONResponse

counts = {"code": 0, "refresh": 0, "revoked": 0, "registered": 0, "calls": 0}


class Provider(in_memory.InMemoryOAuthProvider):
    """FastMCP's provider with request counters."""

    async def register_client(self, client_info):
        counts["registered"] += 1
        await super().register_client(client_info)

    async def exchange_authorization_code(self, client, authorization_code):
        counts["code"] += 1
        return await super().exchange_authorization_code(client, authorization_code)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        counts["refresh"] += 1
        return await super().exchange_refresh_token(client, refresh_token, scopes)

    async def revoke_token(self, token):
        counts["revoked"] += 1
        await super().revoke_token(token)


listening = socket.socket()
listening.bind(("127.0.0.1", 0))
origin = f"http://127.0.0.1:{listening.getsockname()[1]}"
server = FastMCP(
    "hub",
    auth=Provider(
        base_url=origin,
        required_scopes=["notes"],
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=["notes"], default_scopes=["notes"]
        ),
        revocation_options=RevocationOptions(enabled=True),
    ),
)


@server.tool
def read(note: str = "first") -> str:
    """Read a note."""
    counts["calls"] += 1
    return f"read {note} with {' '.join(get_access_token().scopes)}"


@server.custom_route("/browse", methods=["GET"])
async def browse(request: Request) -> JSONResponse:
    async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
        answer = await browser.get(request.query_params["url"])
    return JSONResponse({"url": str(answer.url), "status": answer.status_code, "text": answer.text})


@server.custom_route("/set", methods=["GET"])
async def change(request: Request) -> JSONResponse:
    in_memory.DEFAULT_ACCESS_TOKEN_EXPIRY_SECONDS = int(request.query_params["ttl"])
    return JSONResponse({})


@server.custom_route("/counts", methods=["GET"])
async def counted(_: Request) -> JSONResponse:
    return JSONResponse(counts)


def end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_input, daemon=True).start()
serving = uvicorn.Server(uvicorn.Config(server.http_app(), log_level="warning", ws="none"))
listening.listen()
print(json.dumps({"mcp": f"{origin}/mcp", "issuer": f"{origin}/", "control": origin}), flush=True)
asyncio.run(serving.serve(sockets=[listening]))
