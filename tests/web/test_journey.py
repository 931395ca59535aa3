"""Two journeys through the web page, in a real Chromium against a real server: with a real broker, and with a real OpenID provider.

Sign in, create a stream, watch rows arrive while they are produced, stop, read an error at its place, run from the explorer,
reload, lose the database, sign out; sign in at the provider, stop and start a compute pool. Screenshots of each step are left in
pytest's temporary folder.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from harness.kafka import KafkaClient
from harness.openid import CLIENT, SECRET, OpenIdServer
from harness.patience import PATIENCE_S
from harness.process import HeadraceProcess
from headrace.testing.door import RestDoor
from tests.web.browser import check, home_of, run, run_state, sign_in

pytestmark = pytest.mark.browser

PASSWORD = "correct horse battery"


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_a_user_signs_in_watches_a_stream_and_reads_an_error(
    page: Page,
    snap: Callable[[str], None],
    headrace_server: HeadraceProcess,
    kafka: KafkaClient,
    seed: str,
) -> None:
    store, stream, entity = f"web_store_{seed}", f"web_views_{seed}", f"web-views-{seed}"
    kafka.create(entity)
    kafka.produce(entity, [pageview(number) for number in range(3)])

    page.goto(f"{home_of(headrace_server)}/")
    sign_in(page, "not-a-token")
    expect(page.get_by_role("alert")).to_contain_text("did not accept this token")
    snap("1-refused")
    sign_in(page, headrace_server.token)
    expect(page.get_by_label("SQL editor")).to_be_visible()
    snap("2-workspace")

    create = f"""
        CREATE DATABASE web_{seed};
        USE DATABASE web_{seed};
        CREATE STORE {store} WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}',
          'kafka.sasl.hash_function' = NONE, 'tls.disabled' = TRUE);
        USE STORE {store};
        CREATE STREAM {stream} (viewtime BIGINT, userid VARCHAR) WITH (
          'store' = '{store}', 'topic' = '{entity}', 'value.format' = 'JSON');
    """
    run(page, create, keys="Control+Shift+Enter")
    expect(result_tabs(page)).to_have_count(5)
    expect(run_state(page)).to_have_attribute("data-state", "done")
    expect(page.get_by_test_id("context-database")).to_contain_text(f"web_{seed}")
    explorer = page.get_by_role("complementary", name="Explorer")
    expect(explorer.get_by_role("button", name=store)).to_be_visible()
    snap("3-created")

    run(page, f"SELECT * FROM {stream} WITH ('starting.position' = 'earliest');")
    expect(run_state(page)).to_have_attribute("data-state", "streaming")
    grid = page.get_by_role("grid", name="Streaming rows")
    expect(grid.get_by_text("User_2", exact=True)).to_be_visible()
    expect(grid.get_by_role("columnheader", name="viewtime BIGINT")).to_be_visible()
    with producing(kafka, entity):
        shown_before = rows_received(page)
        page.wait_for_timeout(100)
        wait_for_more_rows(page, than=shown_before)
        snap("4-streaming")
        wait_for_more_rows(page, than=rows_received(page))

    stop_the_query(page, lambda: kafka.produce(entity, [pageview(number) for number in range(5)]))
    snap("5-stopped")
    arrange_the_rows(page, grid)
    explain_before_creating(page, f"web_{seed}.public.{stream}")

    complete_by_keyboard(page, stream, snap)
    read_an_error_at_its_place(page, stream)
    snap("6-error")
    find_in_the_history(page)
    run_from_the_explorer(page, stream)
    reload_in_a_narrow_window(page, database=f"web_{seed}", store=store)
    snap("7-narrow")
    door = RestDoor(headrace_server)
    door.execute(f"DROP STREAM web_{seed}.public.{stream}; DROP DATABASE web_{seed};")
    door.close()
    lose_the_database(page, database=f"web_{seed}", store=store)

    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API token")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0, "signing out must leave nothing behind"
    sign_in_with_a_password(page, headrace_server)


def stop_the_query(page: Page, produce: Callable[[], None]) -> None:
    page.keyboard.press("Escape")
    expect(run_state(page)).to_have_attribute("data-state", "cancelled")
    stopped_at = rows_received(page)
    produce()
    page.wait_for_timeout(2000)
    assert rows_received(page) == stopped_at, "rows arrived after the query was stopped"


def arrange_the_rows(page: Page, grid: Locator) -> None:
    """The rows shown are filtered and ordered, and a column is hidden, without another statement."""
    page.get_by_label("Filter the rows shown").fill("17900000000")
    header = grid.get_by_role("columnheader", name="viewtime BIGINT")
    header.click()
    header.click()
    expect(header).to_have_attribute("aria-sort", "descending")
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("dialog").get_by_role("checkbox", name="viewtime BIGINT").uncheck()
    page.keyboard.press("Escape")
    expect(header).to_be_hidden()
    page.get_by_label("Filter the rows shown").fill("1790000000002 user_2")
    expect(grid.get_by_role("gridcell").first).to_have_text("User_2")
    page.get_by_role("button", name="Chart").click()
    expect(page.get_by_text("A chart needs a column of numbers")).to_be_visible()
    page.get_by_role("button", name="Chart").click()


def explain_before_creating(page: Page, stream: str) -> None:
    """A CREATE … AS shows its plan first, and creates nothing if it is cancelled."""
    run(page, f"CREATE MATERIALIZED VIEW seen AS SELECT userid, COUNT(*) AS n FROM {stream} GROUP BY userid;")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("userid")
    dialog.get_by_role("button", name="Cancel").click()
    expect(run_state(page)).to_have_attribute("data-state", "cancelled")


def find_in_the_history(page: Page) -> None:
    """The user's own statements are there with their outcome, also those that failed."""
    page.get_by_role("button", name="History").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Find a statement").fill("no_such_column failed")
    expect(dialog.get_by_role("listitem").first).to_contain_text("failed 42703")
    # The first one empties the field.
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


@pytest.mark.prove
def test_a_user_signs_in_with_the_provider(page: Page, snap: Callable[[str], None], tmp_path: Path) -> None:
    """The provider is another site than the page: only a browser shows how cookies behave then."""
    person = {"email": "anna@x.org", "email_verified": True, "groups": ["data"]}
    server = HeadraceProcess(tmp_path / "server")
    with OpenIdServer({"anna": person}) as provider:
        try:
            server.start(
                HEADRACE_OIDC_ISSUER=provider.uri,
                HEADRACE_OIDC_CLIENT_ID=CLIENT,
                HEADRACE_OIDC_CLIENT_SECRET=SECRET,
                HEADRACE_OIDC_NAME="Example",
                HEADRACE_OIDC_ROLES="data=sysadmin",
                HEADRACE_OIDC_CREATE_USERS="true",
                HEADRACE_GRAPHIQL="true",
            )
            home = f"http://localhost:{server.url.rsplit(':', 1)[1]}"
            # Server and provider name each other, and only a server that runs has a port.
            provider.stop()
            provider.redirect = f"{home}/v2/session/openid/callback"
            provider.start()
            # The provider's page has a font of somewhere else, and shows nothing before it has that.
            page.route(re.compile("^https://"), lambda route: route.abort())
            page.goto(f"{home}/sql#worksheet={shared_worksheet('from a link', 'LIST ROLES;')}")
            button = page.get_by_role("button", name="Sign in with Example")
            expect(button).to_be_visible()
            snap("8-provider")
            button.click()
            page.locator("input[name=login]").fill("anna")
            page.locator("input[name=password]").fill("any")
            page.locator("button[type=submit]").click()
            page.get_by_role("button", name="Continue").click()
            expect(page.get_by_label("SQL editor")).to_be_visible()
            expect(page.get_by_test_id("context-role")).to_contain_text("sysadmin")
            # The link's worksheet is there after the way over the provider's page, and no longer in the address.
            expect(page.get_by_role("tab", name="from a link")).to_be_visible()
            expect(page.get_by_label("SQL editor")).to_contain_text("LIST ROLES;")
            assert "#" not in page.url
            snap("9-signed-in-with-the-provider")
            begin_the_tour(page)
            run_an_operation(page, snap)
            stop_and_start_a_pool(page, snap)
            page.reload()
            run(page, "LIST STORES;")
            expect(run_state(page)).to_have_attribute("data-state", "done")
            assert page.evaluate("document.cookie") == ""
            page.get_by_role("button", name="Sign out").click()
            expect(button).to_be_visible()
        finally:
            server.stop()


def shared_worksheet(name: str, text: str) -> str:
    """Return the part of a link that the page makes to share a worksheet."""
    return base64.urlsafe_b64encode(json.dumps({"name": name, "text": text}).encode()).decode().rstrip("=")


def begin_the_tour(page: Page) -> None:
    """A server without stores offers the tour, whose first step creates one that needs no other system."""
    page.get_by_role("button", name="Take the tour").click()
    tour = page.get_by_role("region", name="Tour")
    tour.get_by_role("button", name="Run it").click()
    expect(run_state(page)).to_have_attribute("data-state", "done")
    explorer = page.get_by_role("complementary", name="Explorer")
    expect(explorer.get_by_role("button", name="tour")).to_be_visible()
    tour.get_by_role("button", name="Next").click()
    expect(tour.get_by_role("heading")).to_contain_text("Create a database")
    tour.get_by_role("button", name="Close the tour").click()
    expect(tour).to_be_hidden()


def run_an_operation(page: Page, snap: Callable[[str], None]) -> None:
    """The editor for GraphQL, which the setting switches on, completes by the schema and runs with the cookie of the session."""
    page.get_by_role("link", name="GraphQL").click()
    docs = page.get_by_role("complementary", name="Docs")
    # The schema is there, without which nothing is completed.
    expect(docs.get_by_role("button", name="Query")).to_be_visible()
    page.get_by_label("Operation").click()
    page.keyboard.press("Control+A")
    page.keyboard.type("{ stor")
    expect(page.get_by_role("option", name="stores")).to_be_visible()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text("query own($first: Int) { stores(first: $first) { nodes { name } } }")
    page.get_by_label("Variables, one JSON object").fill('{"first": 1}')
    page.get_by_label("Operation").press("Control+Enter")
    expect(page.get_by_role("region", name="Answer")).to_contain_text('"name": "tour"')
    docs.get_by_role("button", name="Query").click()
    check(page, snap, "12-graphql")
    page.get_by_role("link", name="SQL").click()


def stop_and_start_a_pool(page: Page, snap: Callable[[str], None]) -> None:
    """The default pool, as the role that owns it; without a query it has no process, and is ready."""
    pools = page.get_by_role("region", name="Compute pools")
    expect(pools).to_contain_text("small")
    pools.get_by_role("button", name="Stop compute pool default_pool").click()
    snap("10-stop-a-pool")
    pools.get_by_role("button", name="Stop", exact=True).click()
    expect(pools).to_contain_text("stopped")
    snap("11-stopped-pool")
    pools.get_by_role("button", name="Start compute pool default_pool").click()
    expect(pools.get_by_role("button", name="Stop compute pool default_pool")).to_be_visible()


def complete_by_keyboard(page: Page, stream: str, snap: Callable[[str], None]) -> None:
    """The list has the columns of the relation that follows, and Enter accepts."""
    page.get_by_label("SQL editor").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(f"SELECT  FROM {stream}")
    for _ in range(len(f" FROM {stream}")):
        page.keyboard.press("ArrowLeft")
    page.keyboard.type("us")
    expect(page.get_by_role("option", name="userid")).to_be_visible()
    snap("completion")
    page.keyboard.press("Enter")
    expect(page.locator(".cm-line").first).to_have_text(f"SELECT userid FROM {stream}")


def read_an_error_at_its_place(page: Page, stream: str) -> None:
    """SQLSTATE, line and column, and the word underlined."""
    run(page, f"SELECT userid,\n  no_such_column\nFROM {stream};")
    expect(run_state(page)).to_have_attribute("data-state", "failed")
    alert = page.get_by_role("region", name="Results").get_by_role("alert")
    expect(alert).to_contain_text(re.compile(r"SQLSTATE [0-9A-Z]{5}"))
    expect(alert).to_contain_text("line 2, column 3")
    expect(page.locator(".cm-lintRange-error")).to_have_text("no_such_column")


def run_from_the_explorer(page: Page, stream: str) -> None:
    """Run from the explorer, which leaves the editor alone."""
    text = page.locator(".cm-content").inner_text()
    page.get_by_role("button", name=f"Run SELECT * FROM {stream}").click()
    expect(run_state(page)).to_have_attribute("data-state", "streaming")
    assert page.locator(".cm-content").inner_text() == text


def reload_in_a_narrow_window(page: Page, *, database: str, store: str) -> None:
    """The context is what it was, and can be read."""
    page.reload()
    expect(page.get_by_test_id("context-database")).to_contain_text(database)
    expect(page.get_by_test_id("context-store")).to_contain_text(store)
    page.set_viewport_size({"width": 480, "height": 800})
    for field in ("role", "database", "schema", "store"):
        value = page.get_by_test_id(f"context-{field}").locator(".chip-value")
        assert value.evaluate("it => it.scrollWidth <= it.clientWidth"), f"the {field} is cut"


def lose_the_database(page: Page, *, database: str, store: str) -> None:
    """An object that another session dropped is unset here, at the next statement and after a reload; the page continues."""
    run(page, "LIST RELATIONS;")
    expect(page.get_by_test_id("context-database")).not_to_contain_text(database)
    page.reload()
    run(page, "LIST STORES;")
    expect(run_state(page)).to_have_attribute("data-state", "done")
    expect(page.get_by_test_id("context-database")).not_to_contain_text(database)
    expect(page.get_by_test_id("context-store")).to_contain_text(store)


def sign_in_with_a_password(page: Page, server: HeadraceProcess) -> None:
    """A session that no script can read, and that a reload keeps."""
    door = RestDoor(server)
    door.execute(f"ALTER USER admin SET PASSWORD '{PASSWORD}';")
    door.close()
    page.get_by_role("button", name="Use a password").click()
    page.get_by_label("User").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("SQL editor")).to_be_visible()
    page.reload()
    run(page, "LIST STORES;")
    expect(run_state(page)).to_have_attribute("data-state", "done")
    assert page.evaluate("document.cookie") == ""
    sign_out_while_typing(page)


def sign_out_while_typing(page: Page) -> None:
    """The worksheet has what was typed just before, when the user is back."""
    page.get_by_label("SQL editor").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text("-- typed in the last moment")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Use a password").click()
    page.get_by_label("User").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("SQL editor")).to_have_text("-- typed in the last moment")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API token")).to_be_visible()


def result_tabs(page: Page) -> Locator:
    """The tabs of a script's results; the worksheets have tabs too."""
    return page.get_by_role("tablist", name="Results of the script").get_by_role("tab")


def rows_received(page: Page) -> int:
    figures = page.get_by_test_id("stream-figures").inner_text()
    match = re.search(r"([\d,]+) rows?", figures)
    assert match, figures
    return int(match[1].replace(",", ""))


def wait_for_more_rows(page: Page, *, than: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while rows_received(page) <= than:
        assert time.monotonic() < deadline, f"no row after the first {than}, though records were produced"
        page.wait_for_timeout(100)


def pageview(number: int) -> tuple[str, str]:
    value = {"viewtime": 1_790_000_000_000 + number, "userid": f"User_{number}"}
    return f"User_{number}", json.dumps(value)


class producing:  # noqa: N801 - reads as a verb: with producing(...)
    """Writes a record every 50 ms until the block ends."""

    def __init__(self, kafka: KafkaClient, entity: str) -> None:
        self._kafka = kafka
        self._entity = entity
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._produce)

    def _produce(self) -> None:
        number = 100
        while not self._is_over.wait(0.05):
            self._kafka.produce(self._entity, [pageview(number)])
            number += 1

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(30)
