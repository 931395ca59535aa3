"""Single sign-on: a user's identity from an OpenID Connect provider (docs/adr/0028).

Authorization code with PKCE. A response is accepted only if a key of the provider signed it, and if it matches the state and the nonce
that this browser was redirected with and the verifier, which never left the server.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import jwt

from headrace.core.settings import Settings

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Of signatures that only the provider can make: with an HMAC whoever knows the client's secret could."""
TIMEOUT_S = 10.0
METADATA_LASTS_S = 3600.0
LEEWAY_S = 60
AWAY_MAX, AWAY_LASTS_S = 10_000, 600.0
"""How many may be at the provider at a time, and how long."""


class RefusedError(Exception):
    """A refused sign-in. The text is for the audit log; `code` is shown by the page."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True)
class Identity:
    """A user at the provider: a verified e-mail address in lower case, and groups."""

    email: str
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Away:
    """A sign-in at the provider. `browser` is the digest of the content of that browser's cookie."""

    browser: str
    redirect_uri: str
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48), repr=False)
    began: float = field(default_factory=time.monotonic)


class Travellers:
    """Sign-ins in progress, by the state that the browser returns with: once, soon, and in the same browser."""

    def __init__(self) -> None:
        self._away: OrderedDict[str, Away] = OrderedDict()

    def send(self, redirect_uri: str) -> tuple[str, str, Away]:
        """Return a state, the content of the browser's cookie, and the request to the provider."""
        state, cookie = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        away = self._away[state] = Away(_digest(cookie), redirect_uri)
        while len(self._away) > AWAY_MAX:
            self._away.popitem(last=False)
        return state, cookie, away

    def back(self, state: str, cookie: str) -> Away:
        """Raises RefusedError for a state that is not of this browser, that was used, or that is too old."""
        attempt = self._away.pop(state, None)
        if attempt is None or not hmac.compare_digest(attempt.browser, _digest(cookie)):
            raise RefusedError("again", "the state was not issued to this browser, or was used before")
        if time.monotonic() - attempt.began >= AWAY_LASTS_S:
            raise RefusedError("again", "the sign-in took too long")
        return attempt


class OpenIdProvider:
    """The provider in the settings. Its metadata and keys are cached for a while; an unknown key makes the server fetch them again, at
    most every `cooldown_s` seconds. Sign-ins need no cooldown: their tokens come from the provider itself."""

    def __init__(self, settings: Settings, *, cooldown_s: float = 0) -> None:
        self._issuer = settings.oidc_issuer or ""
        self._client = settings.oidc_client_id or ""
        self._secret = settings.oidc_client_secret
        self._scopes = settings.oidc_scopes
        self._groups_claim = settings.oidc_groups_claim
        self._cooldown_s = cooldown_s
        self._metadata: tuple[float, Mapping[str, Any], jwt.PyJWKClient] | None = None

    async def address(self, state: str, away: Away) -> str:
        """Return the provider's address for the browser. Raises RefusedError when the provider does not answer."""
        metadata, _ = await self._known()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(away.verifier.encode()).digest()).rstrip(b"=")
        query = {
            "response_type": "code",
            "client_id": self._client,
            "redirect_uri": away.redirect_uri,
            "scope": self._scopes,
            "state": state,
            "nonce": away.nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        where = metadata["authorization_endpoint"]
        return f"{where}{'&' if '?' in where else '?'}{urlencode(query)}"

    async def identity(self, code: str, away: Away) -> Identity:
        """Exchange a code for the user's identity. Raises RefusedError if any check fails."""
        metadata, _ = await self._known()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": away.redirect_uri,
            "client_id": self._client,
            "code_verifier": away.verifier,
        }
        answer = await _asked(
            "POST", metadata["token_endpoint"], data=form, **self._authentication(metadata, form)
        )
        claims = await self.verified(str(answer.get("id_token")), away.nonce)
        if "email" not in claims and "userinfo_endpoint" in metadata:
            headers = {"Authorization": f"Bearer {answer.get('access_token')}"}
            more = await _asked("GET", metadata["userinfo_endpoint"], headers=headers)
            if more.get("sub") != claims["sub"]:
                raise RefusedError("refused", "the provider reported another user")
            claims = {**more, **claims}
        return self._identity(claims)

    def _authentication(self, metadata: Mapping[str, Any], form: dict[str, str]) -> dict[str, Any]:
        """Return the client authentication: in a header unless the provider only takes the secret in the form; a client without a secret
        uses PKCE."""
        if self._secret is None:
            return {}
        secret = self._secret.get_secret_value()
        if "client_secret_basic" in metadata.get(
            "token_endpoint_auth_methods_supported", ("client_secret_basic",)
        ):
            return {"auth": httpx.BasicAuth(quote(self._client, safe=""), quote(secret, safe=""))}
        form["client_secret"] = secret
        return {}

    async def verified(self, token: str, nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token after checking its issuer, audience, times and nonce."""
        claims = await self._claims("ID token", token, self._client)
        if not hmac.compare_digest(str(claims.get("nonce")), nonce):
            raise RefusedError("refused", "the ID token is not valid: its nonce differs from the request's")
        if claims.get("azp", self._client) != self._client:
            raise RefusedError("refused", "the ID token is not valid: it was issued for another client")
        return claims

    async def bearer(self, token: str, resource: str) -> Identity:
        """Return the identity of an access token that the provider issued for `resource`. Raises RefusedError if any check fails, with the
        code `away` if the provider does not answer."""
        try:
            await self._known()
        except RefusedError as error:
            raise RefusedError("away", str(error)) from None
        return self._identity(await self._claims("access token", token, resource))

    async def _claims(self, kind: str, token: str, audience: str) -> dict[str, Any]:
        _, keys = await self._known()
        try:
            key = await asyncio.to_thread(keys.get_signing_key_from_jwt, token)
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=audience,
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={"require": ["iss", "sub", "aud", "exp", "iat"]},
            )
        except jwt.PyJWKClientConnectionError:
            raise RefusedError("away", "the provider does not answer: its keys cannot be fetched") from None
        except jwt.PyJWTError as error:
            raise RefusedError("refused", f"the {kind} is not valid: {error}") from None
        return claims

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        email = str(claims.get("email") or "").strip().lower()
        name, _, domain = email.partition("@")
        if not name or not domain or claims.get("email_verified") is not True:
            raise RefusedError("unverified", "the provider reports no verified e-mail address")
        groups = claims.get(self._groups_claim) or ()
        claimed = [groups] if isinstance(groups, str) else groups if isinstance(groups, (list, tuple)) else ()
        return Identity(email, frozenset(str(group) for group in claimed))

    async def _known(self) -> tuple[Mapping[str, Any], jwt.PyJWKClient]:
        if self._metadata is None or time.monotonic() - self._metadata[0] >= METADATA_LASTS_S:
            metadata = await _asked("GET", f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
            lacking = {"authorization_endpoint", "token_endpoint", "jwks_uri"} - metadata.keys()
            if metadata.get("issuer") != self._issuer or lacking:
                raise RefusedError(
                    "away", f"expected the metadata of {self._issuer}, found those of another issuer"
                )
            keys = jwt.PyJWKClient(
                metadata["jwks_uri"], timeout=TIMEOUT_S, cooldown_duration=self._cooldown_s
            )
            self._metadata = time.monotonic(), metadata, keys
        return self._metadata[1], self._metadata[2]


async def _asked(method: str, url: str, **given: Any) -> dict[str, Any]:
    """Return the provider's JSON object. Redirects are not followed: a code and a secret go to the provider alone."""
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False) as http:
            answer = await http.request(method, url, **given)
        body = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise RefusedError("away", f"the provider does not answer: {type(error).__name__}") from None
    if answer.status_code != httpx.codes.OK or not isinstance(body, dict):
        # The provider's description is left out: it may repeat secrets of the request.
        error_code = str(body.get("error", ""))[:64] if isinstance(body, dict) else ""
        raise RefusedError("refused", f"the provider refused with {answer.status_code} {error_code}".rstrip())
    return body


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()
