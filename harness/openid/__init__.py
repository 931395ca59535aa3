"""An OpenID provider on loopback (npm oidc-provider, in package-lock.json by its hash), and somebody who signs in there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from harness.kinesis import StandIn
from harness.patience import PATIENCE_S
from headrace.runtime.webpage import install_packages, node_folder

CLIENT, SECRET = "headrace", "s3cr:et & more"
ORIGIN = "http://localhost:8080"
REDIRECT = f"{ORIGIN}/v2/session/openid/callback"
_HERE = Path(__file__).parent


class OpenIdServer(StandIn):
    """Provider of `people`, by sign-in name. It returns their claims in the ID token, or with `when_asked` at its userinfo endpoint only.
    Each start creates another key. Changes apply from the next start."""

    def __init__(self, people: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__()
        self.people = dict(people)
        self.when_asked = False
        self.redirect = REDIRECT

    def _command(self) -> list[str]:
        install_packages(_HERE)
        return [str(node_folder() / "node"), str(_HERE / "provider.mjs")]

    def _environment(self) -> Mapping[str, str]:
        return {
            "PORT": str(self.port),
            "PEOPLE": json.dumps(self.people),
            "CLIENT": CLIENT,
            "SECRET": SECRET,
            "REDIRECT": self.redirect,
            "CONFORM": json.dumps(self.when_asked),
        }


async def sign_in_at(address: str, name: str) -> str:
    """Return the address to which the provider redirects the browser after a user signed in with a name, and consented."""
    async with httpx.AsyncClient(timeout=PATIENCE_S) as browser:
        answer = await browser.get(address)
        while not (location := answer.headers.get("location", "")).startswith(REDIRECT):
            answer = await _next_page(browser, answer, name)
        return str(location)


async def enter_code_at(address: str, name: str, *, abort: bool = False) -> None:
    """Open the address of a device code, which contains it, sign in with a name, and confirm the code; with `abort`, refuse it instead."""
    async with httpx.AsyncClient(timeout=PATIENCE_S) as browser:
        answer = await browser.get(address)
        while not any(end in answer.text for end in ("Sign-in Success", "was interrupted")):
            refusal = {"abort": "yes"} if abort and "Confirm Device" in answer.text else {}
            answer = await _next_page(browser, answer, name, refusal)


async def _next_page(
    browser: httpx.AsyncClient,
    answer: httpx.Response,
    name: str,
    more: Mapping[str, str] = MappingProxyType({}),
) -> httpx.Response:
    """Follow a redirect, or send the form of a page."""
    location = answer.headers.get("location")
    if location is not None:
        return await browser.get(answer.url.join(location))
    form = re.search(r'action="([^"]+)"', answer.text)
    assert form is not None, answer.text
    fields = {"login": name, "password": "any"} if 'name="login"' in answer.text else {}
    fields |= dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', answer.text))
    return await browser.post(answer.url.join(form[1]), data={**fields, **more})
