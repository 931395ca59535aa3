"""Calm, precise states of the page: a slow network, an ended session, many rows, a large cell, hostile texts in names and values."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from harness.process import HeadraceProcess
from headrace.testing.door import RestDoor
from tests.web.browser import check, home_of, run, run_state, sign_in

pytestmark = pytest.mark.browser

HOSTILE = "'\"; DROP DATABASE x; --<img src=x onerror='window.hacked=1'>"
FORMULA = '=HYPERLINK("http://x")'
FIRST_LOAD_BYTES_MAX = 350_000
FIRST_LOAD = """performance.getEntriesByType('resource').filter(each => /[.](js|css)$/.test(each.name) && !/editor/.test(each.name))
  .reduce((sum, each) => sum + each.encodedBodySize, 0)"""
MANY = "SELECT a.name, b.kind FROM deltastream.sys.functions AS a CROSS JOIN deltastream.sys.functions AS b"
TABS = {
    "resources": ("pools", "functions", "try", "savepoints", "secrets"),
    "access": ("roles", "grants", "users", "tokens", "audit", "graph", "may", "matrix"),
    "catalog/{name}/public/{name}": ("columns", "sample", "definition", "grants"),
}
ADDRESSES = (
    *("sql", "queries", "lineage", "catalog", "stores", "stores/{name}"),
    *(f"{page}?tab={tab}" for page, tabs in TABS.items() for tab in tabs),
)


SLOW = {"offline": False, "latency": 2000, "downloadThroughput": -1, "uploadThroughput": -1}


def test_hostile_texts_are_texts_and_large_results_are_cut(
    page: Page, snap: Callable[[str], None], headrace_server: HeadraceProcess, tmp_path: Path, seed: str
) -> None:
    name = f"{HOSTILE}{seed}"
    objects_with_one_name(headrace_server, name)
    home = home_of(headrace_server)
    page.goto(f"{home}/")
    sign_in(page, headrace_server.token)
    expect(page.get_by_label("SQL editor")).to_be_visible()
    assert 50_000 < page.evaluate(FIRST_LOAD) < FIRST_LOAD_BYTES_MAX

    one, other = (text.replace("'", "''") for text in (HOSTILE, FORMULA))
    column = name.replace('"', '""')
    run(page, f"""SELECT '{one}' AS "{column}", '{other}' AS f UNION ALL SELECT '', '-1';""")
    grid = page.get_by_role("grid", name="Result rows")
    expect(grid.get_by_role("gridcell", name=HOSTILE, exact=True)).to_be_visible()
    check(page, snap, "states-1-hostile")
    with page.expect_download() as downloading:
        page.get_by_role("button", name="CSV", exact=True).click()
    downloading.value.save_as(tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as file:
        [titles, *rows] = csv.reader(file)
    assert titles == [name, "f"]
    assert sorted(rows) == [["", "'-1"], [HOSTILE, f"'{FORMULA}"]]

    for number, address in enumerate(each for each in ADDRESSES if "{name}" in each):
        page.goto(f"{home}/{address.format(name=quote(name, safe=''))}")
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        snap(f"states-2-{number}")
    page.goto(f"{home}/catalog?text={quote(seed)}")
    expect(page.get_by_role("link", name=name)).to_be_visible()
    assert page.evaluate("window.hacked") is None

    page.goto(f"{home}/")
    run(page, f"{MANY} LIMIT 20000;")
    expect(page.get_by_text("Only the first 10,000 rows are shown")).to_be_visible()
    run(page, "SELECT kind, COUNT(*) AS n FROM deltastream.sys.functions GROUP BY kind;")
    page.get_by_role("button", name="Chart").click()
    expect(page.get_by_role("row", name=re.compile(r"^aggregate \d+$"))).to_be_visible()
    snap("states-3-chart")
    run(page, f"{MANY} CROSS JOIN deltastream.sys.functions AS c LIMIT 1000000;")
    expect(run_state(page)).to_have_attribute("data-state", "failed")
    expect(page.get_by_role("region", name="Results").get_by_role("alert")).to_contain_text("100")
    snap("states-3-million")
    run(page, "SELECT REPEAT('x', 5000000) AS large UNION ALL SELECT 'small';")
    expect(grid.get_by_role("gridcell", name="small")).to_be_visible()
    grid.get_by_role("gridcell").first.dblclick()
    expect(page.get_by_role("dialog")).to_contain_text("5,000,000 characters")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_slow_network_and_an_ended_session(
    page: Page, snap: Callable[[str], None], headrace_server: HeadraceProcess, seed: str
) -> None:
    door = RestDoor(headrace_server)
    [[*_, token]] = door.execute(f"CREATE API_TOKEN ends_{seed} WITH ('token.role_name' = sysadmin);")
    page.goto(f"{home_of(headrace_server)}/")
    sign_in(page, str(token))
    expect(page.get_by_label("SQL editor")).to_be_visible()

    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    network.send("Network.emulateNetworkConditions", SLOW)
    page.get_by_role("link", name="Stores").click()
    # While the answer is on its way, the page shows its form and no error.
    expect(page.locator(".skeleton").first).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    snap("states-4-slow")
    expect(page.locator(".skeleton")).to_have_count(0)
    network.send("Network.emulateNetworkConditions", {**SLOW, "latency": 0})
    page.get_by_role("link", name="SQL").click()
    run(page, "LIST STORES; -- kept")
    expect(run_state(page)).to_have_attribute("data-state", "done")

    door.execute(f"DROP API_TOKEN ends_{seed};")
    door.close()
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text(
        "The server no longer accepts this session. Sign in again."
    )
    check(page, snap, "states-5-ended")
    sign_in(page, headrace_server.token)
    expect(page.get_by_label("SQL editor")).to_be_visible()


@pytest.mark.prove  # two minutes
def test_every_page_is_accessible_in_every_width(
    page: Page, snap: Callable[[str], None], headrace_server: HeadraceProcess, seed: str
) -> None:
    name = f"pages_{seed}"
    objects_with_one_name(headrace_server, name)
    home = home_of(headrace_server)
    page.goto(f"{home}/")
    check(page, snap, "page-sign-in")
    sign_in(page, headrace_server.token)
    expect(page.get_by_label("SQL editor")).to_be_visible()
    for address in ADDRESSES:
        page.goto(f"{home}/{address.format(name=name)}")
        expect(page.get_by_role("heading", level=1)).to_be_attached()
        expect(page.locator(".skeleton")).to_have_count(0)
        check(page, snap, "page-" + address.replace("{name}", "x").replace("/", "-").replace("?tab=", "-"))


def objects_with_one_name(server: HeadraceProcess, name: str) -> None:
    """Create a database, a store that needs no other system, and a stream with a column, all of that name."""
    quoted = '"' + name.replace('"', '""') + '"'
    door = RestDoor(server)
    door.execute(f"""
        CREATE DATABASE {quoted};
        USE DATABASE {quoted};
        CREATE STORE {quoted} WITH ('type' = GENERATOR);
        CREATE STREAM {quoted} ({quoted} VARCHAR) WITH ('store' = {quoted});
    """)
    door.close()
