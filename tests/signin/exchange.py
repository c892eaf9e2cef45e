"""An issuer with token exchange (RFC 8693, idpyoidc), and an MCP server that accepts its tokens.

Prints its addresses as a line of JSON, and exits when its stdin closes. Endpoints in addition to
the issuer's and the server's:
  /login?user=…    a user's token for the workbench, as a client gets it after a sign-in
  /counts          exchanged tokens, refused exchanges, and requests to the MCP server without a
                   token for it
"""

import json
import os
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from idpyoidc.message.oauth2 import AuthorizationRequest
from idpyoidc.server import Server
from idpyoidc.server.authn_event import create_authn_event
from idpyoidc.server.authz import AuthzHandling
from idpyoidc.server.client_authn import verify_client
from idpyoidc.server.configure import ASConfiguration
from idpyoidc.server.user_info import UserInfo

WORKBENCH = "https://workbench.example.com/mcp"
SECRET = "secret-of-the-workbench-1"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"

counts = {"exchanged": 0, "refused": 0, "unauthorized": 0}
lock = threading.Lock()


def issuer_of(origin: str, resource: str) -> Server:
    crypt = {"keys": {"key_defs": [{"type": "OCT", "use": ["enc"], "kid": kid} for kid in ("password", "salt")]}, "iterations": 1}
    minting = {"supports_minting": ["access_token"], "expires_in": 600}
    token = {"class": "idpyoidc.server.token.jwt_token.JWTToken", "kwargs": {"lifetime": 600, "alg": "ES256"}}
    policy = {
        "function": "idpyoidc.server.oauth2.token_helper.validate_token_exchange_policy",
        "kwargs": {"resource": [resource], "audience": [resource]},
    }
    exchange = {
        "class": "idpyoidc.server.oauth2.token_helper.token_exchange.TokenExchangeHelper",
        "kwargs": {
            "subject_token_types_supported": [ACCESS_TOKEN],
            "requested_token_types_supported": [ACCESS_TOKEN],
            "policy": {"": policy},
        },
    }
    conf = {
        "issuer": origin,
        "keys": {"uri_path": "jwks.json", "key_defs": [{"type": "EC", "crv": "P-256", "use": ["sig"]}]},
        "endpoint": {
            "authorization": {"path": "authorize", "class": "idpyoidc.server.oauth2.authorization.Authorization", "kwargs": {}},
            "token": {
                "path": "token",
                "class": "idpyoidc.server.oidc.token.Token",
                "kwargs": {
                    "client_authn_method": ["client_secret_basic", "client_secret_post"],
                    "grant_types_helpers": {EXCHANGE: exchange},
                },
            },
        },
        "authentication": {
            "anon": {"acr": "password", "class": "idpyoidc.server.user_authn.user.NoAuthn", "kwargs": {"user": "ann"}}
        },
        "userinfo": {"class": UserInfo, "kwargs": {"db": {}}},
        "client_authn": verify_client,
        "authz": {"class": AuthzHandling, "kwargs": {"grant_config": {"usage_rules": {"access_token": minting}, "expires_in": 600}}},
        "token_handler_args": {"code": {"lifetime": 600, "kwargs": {"crypt_conf": {"kwargs": crypt}}}, "token": token},
        "session_params": {"encrypter": {"kwargs": crypt}},
        "scopes_to_claims": {"ledger": []},
    }
    folder = tempfile.mkdtemp()
    server = Server(ASConfiguration(conf=conf, base_path=folder), cwd=folder)
    server.context.map_supported_to_preferred()
    for client in ("claude", "mcp-workbench"):
        server.context.cdb[client] = {
            "client_secret": SECRET,
            "client_salt": "salt",
            "redirect_uris": [("https://example.com/callback", None)],
            "token_endpoint_auth_method": "client_secret_post",
            "grant_types_supported": ["authorization_code", EXCHANGE],
            "response_types": ["code"],
            "allowed_scopes": ["ledger"],
        }
    return server


def user_token(user: str) -> str:
    """Returns an access token of `claude` for the workbench."""
    request = AuthorizationRequest(
        client_id="claude", redirect_uri="https://example.com/callback", scope=["ledger"], state="s", response_type="code"
    )
    sessions = issuer.context.session_manager
    session = sessions.create_session(create_authn_event(user), request, user, client_id="claude", sub_type="public")
    grant = issuer.context.authz(session, request)
    token = grant.mint_token(
        session_id=sessions.encrypted_session_id(user, "claude", grant.id),
        context=issuer.context,
        token_class="access_token",
        token_handler=sessions.token_handler["access_token"],
        usage_rules=grant.usage_rules.get("access_token", {}),
        resources=[WORKBENCH],
        aud=[WORKBENCH],
        scope=["ledger"],
    )
    return token.value


def holder(shown: str) -> str | None:
    """Returns the user of a token for the MCP server, as the issuer knows it."""
    sessions = issuer.context.session_manager
    try:
        session = sessions.get_session_info_by_token(shown, grant=True, handler_key="access_token")
    except Exception:
        return None
    token = sessions.find_token(session["branch_id"], shown)
    is_good = token is not None and token.is_active() and resource in token.resources
    return session["user_id"] if is_good else None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status: int, body=None, headers=()):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in [("content-type", "application/json"), ("content-length", str(len(text))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        with lock:
            if url.path == "/.well-known/oauth-authorization-server":
                metadata = {
                    "issuer": origin,
                    "authorization_endpoint": f"{origin}/authorize",
                    "token_endpoint": f"{origin}/token",
                    "jwks_uri": f"{origin}/jwks.json",
                    "response_types_supported": ["code"],
                    "grant_types_supported": ["authorization_code", EXCHANGE],
                    "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
                    "code_challenge_methods_supported": ["S256"],
                }
                return self.answer(200, metadata)
            if url.path == "/jwks.json":
                return self.answer(200, issuer.keyjar.export_jwks())
            if url.path == "/login":
                return self.answer(200, {"token": user_token(query["user"])})
            if url.path == "/counts":
                return self.answer(200, counts)
        self.answer(405 if url.path == "/mcp" else 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        with lock:
            if self.path == "/token":
                return self.exchange(body.decode())
            if self.path == "/mcp":
                return self.serve(json.loads(body))
        self.answer(404)

    def exchange(self, form: str):
        endpoint = issuer.get_endpoint("token")
        request = endpoint.parse_request(form, {"headers": {"authorization": self.headers.get("authorization", "")}})
        response = request if "error" in request else endpoint.process_request(request=request)
        if "error" in response:
            counts["refused"] += 1
            return self.answer(400, response.to_dict() if hasattr(response, "to_dict") else response)
        counts["exchanged"] += 1
        args = response["response_args"]
        self.answer(200, args.to_dict() if hasattr(args, "to_dict") else dict(args))

    def serve(self, message):
        user = holder(self.headers.get("authorization", "").removeprefix("Bearer "))
        if user is None:
            counts["unauthorized"] += 1
            return self.answer(401, headers=[("www-authenticate", "Bearer")])
        if "id" not in message:
            return self.answer(202)
        results = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "ledger", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "whoami", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": f"you are {user}"}]},
        }
        result = results.get(message["method"])
        if result is None:
            error = {"code": -32601, "message": "unknown method"}
            return self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})
        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})


web = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Handler)
origin = f"http://127.0.0.1:{web.server_address[1]}"
resource = f"{origin}/mcp"
issuer = issuer_of(origin, resource)
print(json.dumps({"mcp": resource, "issuer": origin, "control": origin, "machines": {"secret": SECRET}}), flush=True)
threading.Thread(target=web.serve_forever, daemon=True).start()
sys.stdin.read()
