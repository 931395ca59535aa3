"""Single sign-on: a user's identity from an OpenID Connect provider (docs/adr/0028).

Authorization code with PKCE: a response is accepted only if a key of the provider signed it, and if it matches the state and the nonce
that this browser was redirected with and the verifier, which never left the server. Device authorization (RFC 8628) for programs without a
browser: the device code never leaves the server either.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import ssl
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import jwt
from pydantic import AnyHttpUrl, BaseModel, Field, ValidationError

from headrace.core.settings import Settings

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Of signatures that only the provider can make: with an HMAC whoever knows the client's secret could."""
TIMEOUT_S = 10.0
METADATA_LASTS_S = 3600.0
LEEWAY_S = 60
AWAY_MAX, AWAY_LASTS_S = 10_000, 600.0
"""How many may be at the provider at a time, and how long."""
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


class RefusedError(Exception):
    """A refused sign-in. The text is for the audit log; `code` is shown by the page."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class ProviderRefusedError(RefusedError):
    """An error response of the provider; `error` is its code, such as `access_denied`."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__("refused", f"the provider refused with {status} {error}".rstrip())
        self.error = error


class DeviceCode(BaseModel):
    """The provider's answer to a device authorization request (RFC 8628, section 3.2)."""

    device_code: str = Field(repr=False)
    user_code: str
    verification_uri: AnyHttpUrl
    verification_uri_complete: AnyHttpUrl | None = None
    expires_in: float
    interval: float = 5.0


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
        """Exchange the code of a redirect for the user's identity. Raises RefusedError if any check fails."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": away.redirect_uri,
            "client_id": self._client,
            "code_verifier": away.verifier,
        }
        return await self._signed_in(form, away.nonce)

    async def device_code(self) -> DeviceCode:
        """Start a sign-in in a browser of another machine. Raises RefusedError, with the code `unsupported` if the provider has no such
        sign-ins."""
        metadata, _ = await self._known()
        if "device_authorization_endpoint" not in metadata:
            raise RefusedError("unsupported", "the provider does not support sign-in by a device code")
        form = {"client_id": self._client, "scope": self._scopes}
        answer = await _asked(
            "POST",
            metadata["device_authorization_endpoint"],
            data=form,
            **self._authentication(metadata, form),
        )
        try:
            return DeviceCode.model_validate(answer)
        except ValidationError:
            raise RefusedError(
                "refused", "the provider's device authorization response is not valid"
            ) from None

    async def device_identity(self, code: DeviceCode) -> Identity:
        """Return the identity of the user who entered the code. Raises ProviderRefusedError while nobody has, RefusedError if any check
        fails."""
        form = {"grant_type": DEVICE_GRANT, "device_code": code.device_code, "client_id": self._client}
        return await self._signed_in(form, None)

    async def _signed_in(self, form: dict[str, str], nonce: str | None) -> Identity:
        """Exchange a code for the user's identity."""
        metadata, _ = await self._known()
        answer = await _asked(
            "POST", metadata["token_endpoint"], data=form, **self._authentication(metadata, form)
        )
        claims = await self._verified(str(answer.get("id_token")), nonce)
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

    async def _verified(self, token: str, nonce: str | None) -> dict[str, Any]:
        """Return the claims of an ID token after checking its issuer, audience, times and nonce; device authorization has no nonce."""
        claims = await self._claims("ID token", token, self._client)
        if nonce is not None and not hmac.compare_digest(str(claims.get("nonce")), nonce):
            raise RefusedError("refused", "the ID token is not valid: its nonce differs from the request's")
        if claims.get("azp", self._client) != self._client:
            raise RefusedError("refused", "the ID token is not valid: it was issued for another client")
        return claims

    async def bearer(self, token: str, resource: str) -> tuple[Identity, frozenset[str]]:
        """Return the identity and the scopes of an access token that the provider issued for `resource`. Raises RefusedError if any check
        fails, with the code `away` if the provider does not answer."""
        try:
            await self._known()
        except RefusedError as error:
            raise RefusedError("away", str(error)) from None
        claims = await self._claims("access token", token, resource)
        return self._identity(claims), _scopes(claims)

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


@cache
def _trust() -> ssl.SSLContext:
    """Return the certificates to trust. To read them takes 30 ms of a processor, which each client of httpx would spend anew."""
    return httpx.create_ssl_context()


async def _asked(method: str, url: str, **given: Any) -> dict[str, Any]:
    """Return the provider's JSON object. Redirects are not followed: a code and a secret go to the provider alone."""
    try:
        async with httpx.AsyncClient(verify=_trust(), timeout=TIMEOUT_S, follow_redirects=False) as http:
            answer = await http.request(method, url, **given)
        body = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise RefusedError("away", f"the provider does not answer: {type(error).__name__}") from None
    if answer.status_code != httpx.codes.OK or not isinstance(body, dict):
        # The provider's description is left out: it may repeat secrets of the request.
        error_code = str(body.get("error", ""))[:64] if isinstance(body, dict) else ""
        raise ProviderRefusedError(answer.status_code, error_code)
    return body


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes of an access token: `scope` separated by spaces (RFC 9068), or `scp` of Entra ID and Okta."""
    given = claims.get("scope", claims.get("scp", ""))
    return frozenset(map(str, given) if isinstance(given, list) else str(given).split())


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()
