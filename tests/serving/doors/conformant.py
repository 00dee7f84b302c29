"""What the conformance package of the protocol calls: our server, and our client.

`serve` serves an agent with the tools that its scenarios name; an address is a server of a scenario
that our client is to use.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from moothall import (
    ACCESS_PERMITTED,
    Action,
    Agent,
    CallbackApprover,
    Context,
    NativeSpace,
    RequestError,
    action,
)
from moothall.serving import MCPAgent, asgi

DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJg"
    "gg=="
)
WAVE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DOT}"}}
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
    "if": {"required": ["address"]},
    "then": {"properties": {"address": {"required": ["street"]}}},
    "else": {"required": ["name"]},
    "additionalProperties": False,
}
SCHEMA["$defs"]["address"]["$anchor"] = "addressDef"


class Tools(Agent):
    @action
    async def test_simple_text(self) -> str:
        """Return a text."""
        return "This is a simple text response for testing."

    @action
    async def test_image_content(self) -> list[Any]:
        """Return an image."""
        return [IMAGE]

    @action
    async def test_audio_content(self) -> list[Any]:
        """Return a sound."""
        return [{"type": "audio", "mime_type": "audio/wav", "data": WAVE}]

    @action
    async def test_embedded_resource(self) -> list[Any]:
        """Return a resource."""
        text = "This is an embedded resource content."
        uri = "test://embedded-resource"
        return [{"type": "resource", "uri": uri, "mime_type": "text/plain", "text": text}]

    @action
    async def test_multiple_content_types(self) -> list[Any]:
        """Return several kinds of content."""
        resource = {"uri": "test://mixed-content-resource", "mime_type": "application/json"}
        return [
            {"type": "text", "text": "Multiple content types test:"},
            IMAGE,
            {"type": "resource", **resource, "text": '{"test": "data", "value": 123}'},
        ]

    @action
    async def test_error_handling(self) -> None:
        """Fail."""
        raise RuntimeError("This tool intentionally returns an error for testing")

    @action
    async def test_tool_with_progress(self, context: Context) -> str:
        """Report progress."""
        for percent in (0, 50, 100):
            context.progress(f"{percent} %")
        return "done"

    @action
    async def test_elicitation(self, message: str, context: Context) -> str:
        """Ask the person."""
        return f"User response: {await context.ask_person(message)}"

    @action
    async def test_input_required_result_tampered_state(self, context: Context) -> str:
        """Ask the person, where a client that comes again is to change the state."""
        return await context.ask_person("Go on?")

    @property
    def offers(self) -> dict[str, Action]:
        async def anyone(**args: Any) -> str:
            return str(args)

        made = Action.unchecked("json_schema_2020_12_tool", anyone, "Takes a schema.", SCHEMA)
        return {**super().offers, made.name: made}


def serve() -> None:
    import uvicorn

    uvicorn.run(asgi(Tools("tools")), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")


class Kept:
    """What a login has got."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def login(url: str, context: dict[str, Any]) -> httpx2.Auth:
    """Return the SDK's provider of a scenario; the person at the browser says yes at once."""
    if "private_key_pem" in context:
        signed = SignedJWTParameters(
            issuer=context["client_id"],
            subject=context["client_id"],
            signing_algorithm=context["signing_algorithm"],
            signing_key=context["private_key_pem"],
        )
        assertion = signed.create_assertion_provider()
        return PrivateKeyJWTOAuthProvider(url, Kept(None), context["client_id"], assertion)
    if "client-credentials" in SCENARIO:
        known = context["client_id"], context["client_secret"]
        return ClientCredentialsOAuthProvider(url, Kept(None), *known)
    came: list[str] = []

    async def opens(page: str) -> None:
        async with httpx2.AsyncClient() as browser:
            came.append((await browser.get(page)).headers["location"])

    async def comes_back() -> AuthorizationCodeResult:
        given = parse_qs(urlsplit(came.pop()).query)
        back = {name: given[name][0] for name in ("code", "state", "iss") if name in given}
        return AuthorizationCodeResult(**back)

    about: dict[str, Any] = {"redirect_uris": [AnyUrl("http://127.0.0.1:9/callback")]}
    known = {
        key: context[key] for key in ("client_id", "client_secret", "issuer") if key in context
    }
    if known:
        known["token_endpoint_auth_method"] = "client_secret_basic"
    client = OAuthClientInformationFull(**about, **known) if known else None
    metadata = OAuthClientMetadata(client_name="moothall", **about)
    return OAuthClientProvider(url, metadata, Kept(client), opens, comes_back, METADATA_URL)


def use(url: str) -> None:
    """Call every tool of a server, as its scenario says; the person leaves each field empty."""
    approver = CallbackApprover(lambda request: True, answer=lambda question: "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    wanted = [(each["name"], each["arguments"]) for each in context.get("toolCalls", ())]
    with NativeSpace(approver=approver) as space:
        auth = login(url, context) if SCENARIO.startswith("auth/") else None
        far = space.add(MCPAgent("far", url, access=ACCESS_PERMITTED, auth=auth))
        me = space.add(Agent("me"))
        for name, tool in far.offers.items():
            if name in dict(wanted):
                continue
            args = {each: VALUES.get(each, "x") for each in tool.parameters.get("required", ())}
            if name == "json_schema_echo":
                args = {"schema": far.offers["json_schema_2020_12_tool"].parameters}
            wanted.append((name, args))
        for name, args in wanted:
            try:  # a null stands for what is left out
                given = {key: value for key, value in args.items() if value is not None}
                print(name, me.ask("far", name, **given).result())
            except RequestError as error:  # some servers answer what is no answer
                print(name, error)


SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
METADATA_URL = "https://conformance-test.local/client-metadata.json"
VALUES = {"a": 5, "b": 3, "uri": "file:///path/to/file%20name.txt"}


if __name__ == "__main__":
    serve() if sys.argv[1] == "serve" else use(sys.argv[-1])
