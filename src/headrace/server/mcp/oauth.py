"""OAuth for MCP: access tokens of the OpenID Connect provider that were issued for this server's endpoint (RFC 9068, RFC 8707).

The server is a resource server. Its metadata (RFC 9728) name the provider, where clients get a token for the address of `/mcp`. A token
for any other audience is refused, and no token is sent anywhere: statements run with the user's roles.
"""

from __future__ import annotations

import asyncio
import time

import structlog
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter
from starlette.routing import Route

from headrace.catalog.objects import Principal
from headrace.core.settings import Settings
from headrace.server.auth import InsufficientScopeError
from headrace.server.openid import OpenIdProvider, RefusedError
from headrace.server.ports import Accounts

log = structlog.get_logger()

_AS_GIVEN = TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True))
"""Clients compare the issuer with the provider's own metadata: no slash may be added to it."""
COOLDOWN_S = 30.0
"""Pause between requests to the provider that strangers can cause: for an unknown key, and after a failure."""


class AccessTokens:
    """Principals of access tokens; used if an issuer and the public URL are set."""

    def __init__(self, settings: Settings, accounts: Accounts) -> None:
        self._issuer = settings.oidc_issuer or ""
        self._resource = f"{settings.public_url}/mcp"
        self._scopes = settings.mcp_scopes
        self._accounts = accounts
        self._provider = OpenIdProvider(settings, cooldown_s=COOLDOWN_S)
        self._turn = asyncio.Lock()
        self._retry_at = 0.0

    @property
    def challenge(self) -> str:
        """The parameters of WWW-Authenticate that lead clients to the metadata, and name the scopes to request."""
        metadata = f'resource_metadata="{build_resource_metadata_url(AnyHttpUrl(self._resource))}"'
        return f'{metadata}, scope="{" ".join(self._scopes)}"' if self._scopes else metadata

    def routes(self) -> list[Route]:
        """Return the routes of the metadata, which need no token."""
        return create_protected_resource_routes(
            resource_url=AnyHttpUrl(self._resource),
            authorization_servers=[_AS_GIVEN.validate_python(self._issuer)],
            scopes_supported=list(self._scopes) or None,
            resource_name="Headrace",
        )

    async def principal(self, token: str) -> Principal | None:
        """Return the user of a token with all roles that the user has; None if the token is not valid or its user does not exist.

        Raises InsufficientScopeError for a valid token that lacks a scope.
        """
        if token.count(".") != 2 or time.monotonic() < self._retry_at:
            return None
        try:
            # One at a time: keys and metadata are fetched once, whatever the number of requests.
            async with self._turn:
                identity, scopes = await self._provider.bearer(token, self._resource)
        except RefusedError as error:
            log.warning("access_token_refused", reason=str(error))
            if error.code == "away":
                self._retry_at = time.monotonic() + COOLDOWN_S
            return None
        user = self._accounts.user(identity.email)
        if user is None:
            return None
        if not scopes.issuperset(self._scopes):
            raise InsufficientScopeError
        return Principal(user.name, user.roles, user.default_role, credential="access token")
