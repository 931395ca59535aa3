"""Helpers of the journeys through the web page: sign-in, patience, the editor, and the check of accessibility."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Error, Locator, Page, expect

from harness.kinesis import ACCESS_KEY, SECRET_KEY
from harness.patience import PATIENCE_S, until
from harness.process import HeadraceProcess

# The first query of a session starts a JVM, on machines that do other things too.
PATIENCE_MS = PATIENCE_S * 1000
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
_IS_NOT_TOO_WIDE = "() => document.documentElement.scrollWidth <= innerWidth"
_CHOSEN_TAB_IS_IN_SIGHT = """() => [...document.querySelectorAll('.page-tabs [aria-selected=true]')]
  .map(tab => tab.getBoundingClientRect()).every(({left, right}) => left >= 0 && right <= innerWidth)"""
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("API token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def home_of(server: HeadraceProcess) -> str:
    """The address of the page, without a slash at the end."""
    return server.url.removesuffix("/").removesuffix("/v2")


def run(page: Page, text: str, *, keys: str = "Control+Enter") -> None:
    """Replaces the editor's text and runs it by keyboard."""
    page.get_by_label("SQL editor").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)
    page.keyboard.press(keys)


def open_by_letters(page: Page, letter: str, heading: Locator) -> None:
    """Press `g` and the letter of a page, again if a busy machine needed longer for both than a page allows."""

    def is_open() -> bool:
        for key in ("g", letter):
            page.keyboard.press(key)
        try:
            heading.wait_for(timeout=5_000)
        except Error:
            return False
        return True

    until(is_open, f"g and {letter} to open a page")


def run_state(page: Page) -> Locator:
    return page.get_by_test_id("run-state")


def create_a_kinesis_store(page: Page, uri: str, store: str) -> None:
    """Create a store by its form, from the page of the stores."""
    page.get_by_role("button", name="New store").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("^Type")).select_option("KINESIS")
    dialog.get_by_label("Name", exact=True).fill(store)
    dialog.get_by_text("More properties").click()
    for name, value in {
        "uris": uri,
        "kinesis.access_key_id": ACCESS_KEY,
        "kinesis.secret_access_key": SECRET_KEY,
    }.items():
        dialog.get_by_label(name, exact=True).fill(value)
    dialog.get_by_label("tls.disabled", exact=True).select_option("true")
    dialog.get_by_role("button", name="Test and create").click()
    expect(page).to_have_url(re.compile(f"/stores/{store}$"))


def check(page: Page, snap: Callable[[str], None], name: str) -> None:
    """Fail if axe finds a violation, in light or in dark, or if the page or its chosen tab does not fit a narrow window."""
    page.evaluate(AXE.read_text())
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        snap(f"{name}-{scheme}")
        violations = page.evaluate(
            "async (tags) => (await axe.run(document, {runOnly: tags})).violations"
            ".map(each => `${each.id}: ${each.nodes.map(node => node.target).join(' ')}`)",
            _RULES,
        )
        assert violations == [], f"{name} in {scheme}"
    for width, height in ((390, 844), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        snap(f"{name}-{width}")
        # Charts draw themselves again some time after their window has another size.
        page.wait_for_function(_IS_NOT_TOO_WIDE)
        page.wait_for_function(_CHOSEN_TAB_IS_IN_SIGHT)
    page.set_viewport_size({"width": 1440, "height": 900})
