"""An OpenID provider on loopback (npm oidc-provider, in package-lock.json by its hash), and somebody who signs in there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
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
        while True:
            location = answer.headers.get("location")
            if location is not None and location.startswith(REDIRECT):
                return str(location)
            if location is not None:
                answer = await browser.get(answer.url.join(location))
                continue
            form = re.search(r'action="([^"]+)"', answer.text)
            assert form is not None, answer.text
            prompt = "login" if 'name="login"' in answer.text else "consent"
            answer = await browser.post(form[1], data={"prompt": prompt, "login": name, "password": "any"})
