"""A browser for the journeys through the web page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect, sync_playwright

from tests.web.browser import PATIENCE_MS

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LAUNCH_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Chromium keeps the look of a text that is typed over by a style attribute, which the policy blocks: the editor wants none.
STYLE_BLOCKED = "Applying inline style violates"
REPORT_VIOLATIONS = """document.addEventListener("securitypolicyviolation", violation => {
  if (violation.effectiveDirective !== "style-src-attr") console.error("blocked by the policy:", violation.effectiveDirective);
});"""


@pytest.fixture
def page() -> Iterator[Page]:
    """An empty page of a new browser; the test fails when a script of the page does."""
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert executable, f"this test needs one of {', '.join(BROWSERS)} on PATH: make browser installs it"
    faults: list[str] = []

    def note(message: ConsoleMessage) -> None:
        # A refused request and a lost connection are logged by the browser itself; they are what the test provokes.
        expected = ("Failed to load resource", "WebSocket connection to", STYLE_BLOCKED)
        if message.type == "error" and not message.text.startswith(expected):
            place = message.location
            faults.append(f"{message.text} ({place['url']}:{place['lineNumber']}:{place['columnNumber']})")

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=LAUNCH_FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        expect.set_options(timeout=PATIENCE_MS)
        page.add_init_script(REPORT_VIOLATIONS)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", note)
        yield page
        browser.close()
    assert not faults, faults


@pytest.fixture
def snap(page: Page, tmp_path: Path) -> Callable[[str], None]:
    """Saves what the page shows under a name."""

    def save(name: str) -> None:
        page.screenshot(path=tmp_path / f"{name}.png")

    return save
