"""Sign-in and patience of the journeys through the web page."""

from __future__ import annotations

from playwright.sync_api import Page

from harness.patience import PATIENCE_S

# The first query of a session starts a JVM, on machines that do other things too.
PATIENCE_MS = PATIENCE_S * 1000


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("API token").fill(token)
    page.get_by_role("button", name="Sign in").click()
