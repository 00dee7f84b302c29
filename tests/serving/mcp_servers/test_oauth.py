"""A server that wants a login by OAuth: the SDK's server and provider, and a person who permits."""

from __future__ import annotations

import secrets
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyHttpUrl, AnyUrl

from moothall import ACCESS_PERMITTED, Agent, NativeSpace
from moothall.foundation.errors import MoothallError
from moothall.serving import MCPAgent
from serving.doors.conftest import serving


class Authority:
    """The server's own authority, which logs everybody in, and lets a token live for `lives_s`."""

    def __init__(self, lives_s: int = 3600) -> None:
        self.lives_s = lives_s
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshing: dict[str, RefreshToken] = {}
        self.logins = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[str(client_info.client_id)] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        self.logins += 1
        code = secrets.token_hex(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=str(client.client_id),
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, code: str) -> AuthorizationCode | None:
        return self.codes.get(code)

    async def exchange_authorization_code(self, client: Any, code: AuthorizationCode) -> OAuthToken:
        del self.codes[code.code]
        return self._token(code.client_id, code.scopes, code.resource)

    async def load_refresh_token(self, client: Any, token: str) -> RefreshToken | None:
        return self.refreshing.get(token)

    async def exchange_refresh_token(
        self, client: Any, token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        return self._token(token.client_id, scopes, token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.tokens.get(token)
        return found if found is not None and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: Any) -> None: ...

    def _token(self, client: str, scopes: list[str], resource: str | None) -> OAuthToken:
        about: dict[str, Any] = {"client_id": client, "scopes": scopes, "resource": resource}
        token, again = secrets.token_hex(16), secrets.token_hex(16)
        until = int(time.time()) + self.lives_s
        self.tokens[token] = AccessToken(token=token, expires_at=until, **about)
        self.refreshing[again] = RefreshToken(token=again, **about)
        return OAuthToken(
            access_token=token, expires_in=self.lives_s, refresh_token=again, scope=" ".join(scopes)
        )


class Kept:
    """Keeps tokens and the registration of the client, as a program would in a file."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def provider(url: str, kept: Kept) -> OAuthClientProvider:
    """The SDK's provider, whose browser is a person who says yes at once."""
    came: dict[str, str] = {}

    async def opens(page: str) -> None:
        async with httpx2.AsyncClient() as browser:
            answer = await browser.get(page)
        given = parse_qs(urlsplit(answer.headers["location"]).query)
        came.update({name: each[0] for name, each in given.items()})

    async def comes_back() -> Any:
        return AuthorizationCodeResult(code=came["code"], state=came.get("state"))

    metadata = OAuthClientMetadata(
        client_name="moothall", redirect_uris=[AnyUrl("http://127.0.0.1:9/callback")]
    )
    return OAuthClientProvider(f"{url}/mcp", metadata, kept, opens, comes_back)


def shop(url: str, authority: Authority) -> Any:
    server = MCPServer(
        "shop",
        auth_server_provider=authority,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(url),
            resource_server_url=AnyHttpUrl(f"{url}/mcp"),
            validate_token_resource=True,
            client_registration_options=ClientRegistrationOptions(enabled=True),
        ),
    )

    @server.tool()
    def price(item: str) -> int:
        """Tell the price of an item."""
        return len(item)

    return server.streamable_http_app()


def asked(url: str, auth: Any) -> Any:
    with NativeSpace() as space:
        space.add(MCPAgent("shop", f"{url}/mcp", auth=auth, access=ACCESS_PERMITTED))
        me = space.add(Agent("me"))
        action = {"name": "price", "args": {"item": "lamp"}}
        return me.request({"to": "shop", "action": action}).result(timeout=20)["result"]


def test_mcp_server_with_oauth_is_logged_in_to_once_and_by_what_was_kept() -> None:
    authority, kept = Authority(), Kept()
    with serving(None, lambda url: shop(url, authority)) as url:
        assert asked(url, provider(url, kept)) == 4
        assert asked(url, provider(url, kept)) == 4  # another start of the program
    assert (authority.logins, len(authority.clients)) == (1, 1)


def test_mcp_server_with_oauth_gets_a_new_token_for_one_that_is_over() -> None:
    authority, kept = Authority(lives_s=1), Kept()
    with serving(None, lambda url: shop(url, authority)) as url:
        assert asked(url, provider(url, kept)) == 4
        authority.tokens.clear()
        assert asked(url, provider(url, kept)) == 4


def test_mcp_server_with_oauth_refuses_who_has_no_login() -> None:
    authority = Authority()
    with (
        serving(None, lambda url: shop(url, authority)) as url,
        pytest.raises(MoothallError, match="401"),
    ):
        asked(url, None)
