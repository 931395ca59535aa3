"""Journeys of one task each, in a real Chromium against a real server: privileges, a store by clicks, a restart, keyboard only."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from harness.kinesis import MotoServer
from harness.patience import until
from harness.process import HeadraceProcess
from headrace.testing.door import RestDoor
from tests.web.browser import (
    check,
    create_a_kinesis_store,
    home_of,
    open_by_letters,
    run,
    run_state,
    sign_in,
)

pytestmark = pytest.mark.browser


def test_a_user_grants_a_privilege_and_reads_why_the_role_may_not_do_more(
    page: Page, snap: Callable[[str], None], headrace_server: HeadraceProcess, seed: str
) -> None:
    database, role = f"access_{seed}", f"reader_{seed}"
    page.goto(f"{home_of(headrace_server)}/sql")
    sign_in(page, headrace_server.token)
    text = f"CREATE DATABASE {database}; USE ROLE orgadmin; CREATE ROLE {role}; GRANT ROLE {role} TO USER admin; USE ROLE sysadmin;"
    run(page, text, keys="Control+Shift+Enter")
    expect(run_state(page)).to_have_attribute("data-state", "done")
    format_a_statement(page)
    snap("access-0-formatted")

    page.get_by_role("link", name="Access").click()
    page.get_by_role("tab", name="Matrix").click()
    page.get_by_label("Object", exact=True).fill(f"database {database}")
    matrix = page.get_by_role("region", name=f"Privileges on database {database}")
    matrix.get_by_role("button", name=f"Grant USAGE on database {database} to {role}", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f'GRANT USAGE ON DATABASE {database} TO ROLE "{role}"')
    dialog.get_by_role("button", name="Grant", exact=True).click()
    expect(dialog).to_be_hidden()
    revoke = matrix.get_by_role("button", name=f"Revoke USAGE on database {database} from {role}", exact=True)
    expect(revoke).to_be_visible()
    check(page, snap, "access-1-granted")

    page.get_by_test_id("context-role").click()
    page.get_by_role("dialog").get_by_role("button", name=role).click()
    expect(page.get_by_test_id("context-role")).to_contain_text(role)
    # The reader sees the matrix, but its buttons are disabled, with the reason.
    expect(revoke).to_have_attribute("aria-disabled", "true")
    expect(revoke).to_have_attribute("title", re.compile("MANAGE_GRANTS"))
    page.get_by_role("link", name="SQL").click()
    run(page, f"CREATE SCHEMA {database}.drafts;")
    alert = page.get_by_role("region", name="Results").get_by_role("alert")
    expect(alert).to_contain_text("SQLSTATE 42501")
    expect(alert).to_contain_text(f"CREATE_SCHEMA on the database {database}")
    check(page, snap, "access-2-refused")
    page.get_by_role("link", name="Access").click()
    page.get_by_role("tab", name="May a role…").click()
    page.get_by_label("on", exact=True).fill(f"database {database}")
    page.locator("label").filter(has_text=re.compile("^use")).get_by_role("combobox").select_option(
        "CREATE_SCHEMA"
    )
    expect(page.get_by_role("status", name="Answer")).to_contain_text(f"No, {role} may not.")


def format_a_statement(page: Page) -> None:
    """Each clause is on a line of its own, and one undo takes that back."""
    page.get_by_label("SQL editor").click()
    page.keyboard.press("Control+A")
    text = "SELECT userid FROM visits WHERE viewtime > 1;"
    page.keyboard.insert_text(text)
    page.get_by_role("button", name="Format", exact=True).click()
    lines = ["SELECT", "  userid", "FROM", "  visits", "WHERE", "  viewtime > 1;"]
    expect(page.locator(".cm-line")).to_have_text(lines)
    page.keyboard.press("Control+Z")
    expect(page.locator(".cm-line")).to_have_text([text])


@pytest.fixture(scope="module")
def aws() -> Iterator[MotoServer]:
    with MotoServer() as server:
        yield server


def test_a_user_makes_a_store_a_topic_and_a_changelog_by_clicks_and_sees_what_a_drop_takes_along(
    page: Page, snap: Callable[[str], None], headrace_server: HeadraceProcess, aws: MotoServer, seed: str
) -> None:
    store, database, topic = f"aws_{seed}", f"clicks_{seed}", f"users-{seed}"
    home = home_of(headrace_server)
    page.goto(f"{home}/stores")
    sign_in(page, headrace_server.token)
    create_a_kinesis_store(page, aws.uri, store)
    ask_for_a_test(page)
    write_the_first_record(page, topic)
    read_its_bytes(page, snap)
    create_a_changelog(page, snap, headrace_server, database=database)
    page.goto(f"{home}/catalog/{database}/public/users")
    describe_it(page, snap)
    page.goto(f"{home}/lineage?text={database}")
    see_what_a_drop_takes_along(page, snap)


def ask_for_a_test(page: Page) -> None:
    """The page shows the result of a test that it asked for. Its clock stands still in an hour: the age of that test does not depend on
    how long the page needs, and differs from the age of the test before."""
    page.clock.set_fixed_time(datetime.now(UTC) + timedelta(hours=1))
    page.reload()
    expect(page.get_by_text(re.compile(r"last test 1(\.\d)? h ago, [0-9.]+ m?s"))).to_be_visible()
    page.get_by_role("button", name="Test it now").click()
    expect(page.get_by_text(re.compile(r"last test [1-6]\d min ago, [0-9.]+ m?s"))).to_be_visible()
    page.clock.set_fixed_time(datetime.now(UTC))


def write_the_first_record(page: Page, topic: str) -> None:
    """A topic by the form, and its first record by another one."""
    page.get_by_role("button", name="New entity").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill(topic)
    dialog.get_by_label("kinesis.shards").fill("1")
    dialog.get_by_role("button", name="Create it").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name=topic, exact=True).click()
    page.get_by_role("button", name="Write a record").click()
    dialog.get_by_label("Value").fill('{"userid": "u1", "region": "north", "at": 5}')
    dialog.get_by_role("button", name="Write the record").click()
    expect(dialog).to_be_hidden()


def read_its_bytes(page: Page, snap: Callable[[str], None]) -> None:
    """The record in the format that the user chooses, and the shard that contains it."""
    expect(page.get_by_text("Read shows the records")).to_be_visible()
    page.get_by_label("Value as").select_option("base64")
    page.get_by_role("button", name="Read", exact=True).click()
    text = b64encode(b'{"userid": "u1", "region": "north", "at": 5}').decode()
    expect(page.get_by_role("gridcell", name=text)).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_label("Start at").get_by_role("option")).to_have_text(
        ["the first record", "now", "a time"]
    )
    check(page, snap, "clicks-3-bytes")
    page.get_by_role("tab", name="Partitions and settings").click()
    expect(page.get_by_role("region", name="Partitions").get_by_role("row")).to_have_count(2)
    expect(page.get_by_role("region", name="Settings")).to_contain_text("retention.hours")
    check(page, snap, "clicks-4-layout")
    page.get_by_role("tab", name="Records").click()


def create_a_changelog(
    page: Page, snap: Callable[[str], None], server: HeadraceProcess, *, database: str
) -> None:
    """Infer the columns of a stream, and then those of a changelog, whose key the user chooses."""
    door = RestDoor(server)
    door.execute(f"CREATE DATABASE {database};")
    page.get_by_role("button", name="Create a relation").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name, as database.schema.name").fill(f"{database}.public.users")
    dialog.get_by_role("button", name="Infer the columns").click()
    statement = dialog.get_by_label("The statement, which you may change")
    expect(statement).to_have_value(re.compile("CREATE STREAM .*region VARCHAR", re.DOTALL))
    dialog.get_by_label("Kind of relation").select_option("changelog")
    expect(statement).to_be_hidden()
    dialog.get_by_role("button", name="Infer the columns").click()
    expect(dialog.get_by_role("group", name="Primary key")).to_contain_text("region VARCHAR")
    expect(dialog.get_by_role("button", name="Create it")).to_be_disabled()
    dialog.get_by_label("userid").check()
    expect(statement).to_have_value(re.compile(r"PRIMARY KEY \(.?userid.?\)"))
    check(page, snap, "clicks-1-changelog")
    dialog.get_by_role("button", name="Create it").click()
    expect(dialog).to_be_hidden()
    door.execute(f"CREATE VIEW {database}.public.northern AS SELECT userid FROM {database}.public.users;")
    door.close()


def describe_it(page: Page, snap: Callable[[str], None]) -> None:
    """A description, which the page shows at once."""
    page.get_by_role("button", name="Describe").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Save it")).to_be_disabled()
    dialog.get_by_label("Description").fill("Everybody's region")
    check(page, snap, "clicks-5-describe")
    dialog.get_by_role("button", name="Save it").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_text("Everybody's region")).to_be_visible()


def see_what_a_drop_takes_along(page: Page, snap: Callable[[str], None]) -> None:
    """The dialog names the view that depends on the changelog, and drops both after the name was typed."""
    matches = page.get_by_role("region", name="Matches")
    matches.get_by_role("button").filter(has_text="changelog").first.click()
    side = page.get_by_role("complementary", name="relation users")
    side.get_by_role("button", name="Drop", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("listitem")).to_have_text(re.compile("northern"))
    check(page, snap, "clicks-2-impact")
    confirm = dialog.get_by_role("button", name="Drop it and 1 more")
    expect(confirm).to_be_disabled()
    dialog.get_by_label("Type users to confirm").fill("users")
    confirm.click()
    expect(dialog).to_be_hidden()
    expect(side).to_be_hidden()


def test_an_open_tab_outlives_a_restart_and_is_used_by_keyboard_alone(
    page: Page, snap: Callable[[str], None], tmp_path: Path
) -> None:
    server = HeadraceProcess(tmp_path / "server")
    try:
        server.start()
        page.goto(f"{home_of(server)}/")
        sign_in_and_work_by_keyboard(page, snap, server.token)
        server.kill()
        page.keyboard.press("Control+Enter")
        banner = page.get_by_role("alert").filter(has_text="queries that were created keep running")
        expect(banner).to_be_visible()
        check(page, snap, "restart-1-away")
        server.start()
        expect(banner).to_be_hidden()
        reach(page, page.get_by_label("SQL editor"))
        page.keyboard.press("Control+Enter")
        expect(run_state(page)).to_have_attribute("data-state", "done")
        expect(page.get_by_role("gridcell", name="sysadmin").first).to_be_visible()
    finally:
        server.stop()


def test_an_open_page_shows_what_is_pushed_and_polls_nothing(
    page: Page, snap: Callable[[str], None], tmp_path: Path, seed: str
) -> None:
    server = HeadraceProcess(tmp_path / "server")
    reads: list[str] = []
    sockets: list[str] = []
    page.on("request", lambda request: reads.append(request.url) if request.method == "POST" else None)
    page.on("websocket", lambda socket: sockets.append(socket.url))
    try:
        server.start()
        page.goto(f"{home_of(server)}/catalog")
        sign_in(page, server.token)
        create_and_see(page, server, f"one_{seed}")
        assert sockets

        def is_silent() -> bool:
            before = len(reads)
            # Longer than the interval of polling. A first one may have what follows the change.
            page.wait_for_timeout(12_000)
            return len(reads) == before

        until(is_silent, lambda: f"an interval without a request, but {reads[-5:]}")
        opened = len(sockets)
        server.kill()
        banner = page.get_by_role("alert").filter(has_text="queries that were created keep running")
        expect(banner).to_be_visible()
        server.start()
        expect(banner).to_be_hidden()
        create_and_see(page, server, f"two_{seed}")
        expect(page.get_by_role("heading", name=f"one_{seed}.public")).to_be_visible()
        # The catalog did not wait for another poll only: the page is connected again.
        assert len(sockets) > opened
        snap("pushed-1-again")
    finally:
        server.stop()


def create_and_see(page: Page, server: HeadraceProcess, database: str) -> None:
    """Create a database elsewhere, and see its schema in the open catalog."""
    expect(page.locator(".skeleton")).to_have_count(0)
    door = RestDoor(server)
    door.execute(f"CREATE DATABASE {database};")
    door.close()
    expect(page.get_by_role("heading", name=f"{database}.public")).to_be_visible()


def sign_in_and_work_by_keyboard(page: Page, snap: Callable[[str], None], token: str) -> None:
    """Sign in, refuse the tour, run a statement, read a cell, open pages by letters and by the palette, and change the role."""
    keys = page.keyboard
    expect(page.get_by_label("API token")).to_be_focused()
    keys.insert_text(token)
    keys.press("Enter")
    editor = page.get_by_label("SQL editor")
    expect(editor).to_be_focused()
    keys.insert_text("LIST ROLES;")
    keys.press("Control+Enter")
    expect(run_state(page)).to_have_attribute("data-state", "done")
    reach(page, page.get_by_role("grid", name="Result rows"))
    keys.press("ArrowDown")
    keys.press("Enter")
    expect(page.get_by_role("dialog").locator("pre")).not_to_be_empty()
    keys.press("Escape")
    open_by_letters(page, "a", page.get_by_role("heading", name="Access", level=1))
    reach(page, page.get_by_role("tab", name="Roles", exact=True))
    keys.press("ArrowRight")
    expect(page.get_by_role("tab", name="Grants")).to_be_focused()
    palette = page.get_by_role("combobox", name="Page, action or object")
    keys.press("Control+k")
    expect(palette).to_be_focused()
    keys.insert_text("role")
    check(page, snap, "keyboard-1-palette")
    expect(page.get_by_role("option").first).to_be_visible()
    keys.press("Escape")
    expect(palette).to_be_hidden()
    keys.press("Control+k")
    expect(palette).to_be_focused()
    keys.insert_text("SQL")
    keys.press("Enter")
    expect(editor).to_be_visible()
    reach(page, editor)


def reach(page: Page, element: Locator) -> None:
    """Press Tab until the element has the focus."""
    for _ in range(100):
        if element.evaluate("it => it === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {element}")
