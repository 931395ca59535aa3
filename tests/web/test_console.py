"""A journey through the console's pages, in a real Chromium against a real server: why a query has no output, what it reads and what
depends on it, by mouse and by keyboard. Each page is checked with axe in light and dark."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from harness.kafka import KafkaClient
from harness.patience import until
from harness.process import HeadraceProcess
from headrace.testing.door import RestDoor
from tests.web.browser import PATIENCE_MS, check, home_of, open_by_letters, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


def test_a_user_reads_why_a_query_gives_nothing_and_follows_its_lineage(
    page: Page,
    snap: Callable[[str], None],
    headrace_server: HeadraceProcess,
    kafka: KafkaClient,
    seed: str,
) -> None:
    names = {"database": f"console_{seed}", "store": f"console_store_{seed}", "topic": f"console-{seed}"}
    query = waiting_query(headrace_server, kafka, **names)

    # A link that somebody shared: its page is shown after the sign-in.
    page.goto(f"{home_of(headrace_server)}/queries?text={query}")
    sign_in(page, headrace_server.token)
    queries = page.get_by_role("region", name="Queries")
    row = queries.get_by_role("row").filter(has_text="per_minute")
    expect(row.get_by_text("running")).to_be_visible()
    check(page, snap, "console-1-queries")
    page.get_by_label("State").select_option("running")
    expect(page).to_have_url(re.compile(rf"/queries\?text={query}&state=running$"))
    row.get_by_role("link", name="per_minute", exact=True).click()
    expect(page).to_have_url(re.compile(f"/queries/{query}"))

    findings = page.get_by_role("region", name="Findings")
    expect(findings).to_contain_text(
        f"partition 1 of {names['topic']} has had no record", timeout=PATIENCE_MS
    )
    expect(findings).to_contain_text("source.idle.timeout.millis")
    holder = page.get_by_role("region", name="Splits").get_by_role("row").filter(has_text="holds it back")
    expect(holder.get_by_role("cell").nth(1)).to_have_text("1")
    check(page, snap, "console-2-query")

    page.get_by_role("tab", name="Plan").click()
    expect(page.get_by_label("Watermark", exact=False).first).to_contain_text("timed_readings")
    check(page, snap, "console-3-plan")
    page.get_by_role("tab", name="Plan").press("ArrowRight")
    expect(page.get_by_role("tabpanel")).to_contain_text("CREATE CHANGELOG")

    take_a_savepoint(page, seed)
    check(page, snap, "console-4-history")
    follow_the_lineage(page, snap, database=names["database"])
    read_the_catalog(page, snap, database=names["database"])
    read_why_a_role_may(page, snap, database=names["database"])
    create_a_store(page, snap, kafka, name=f"console_form_{seed}")
    write_a_record(page, snap, topic=names["topic"])
    create_a_stream(page, database=names["database"])
    insert_a_row(page, snap, database=names["database"])
    see_the_slot_hours(page, snap)


def waiting_query(
    server: HeadraceProcess, kafka: KafkaClient, *, database: str, store: str, topic: str
) -> str:
    """Create a query whose watermark waits for a partition without records; return its id."""
    kafka.create(topic, partitions=2)
    now = int(time.time() * 1000)
    records = [("k", json.dumps({"at": now + number, "temp": number})) for number in range(5)]
    kafka.produce(topic, records, partition=0)
    door = RestDoor(server)
    door.execute(f"""
        CREATE DATABASE {database};
        USE DATABASE {database};
        CREATE STORE {store} WITH ('type' = KAFKA, 'uris' = '{kafka.bootstrap}',
          'kafka.sasl.hash_function' = NONE, 'tls.disabled' = TRUE);
        CREATE STREAM readings (at BIGINT, temp INTEGER) WITH (
          'store' = '{store}', 'topic' = '{topic}', 'value.format' = 'JSON', 'timestamp' = 'at');
        CREATE CHANGELOG per_minute WITH ('store' = '{store}', 'topic' = '{topic}-out', 'topic.partitions' = 1, 'topic.replicas' = 1)
          AS SELECT window_start, window_end, COUNT(*) AS seen
          FROM TUMBLE(readings, SIZE 1 MINUTE) WITH ('starting.position' = 'earliest') GROUP BY window_start, window_end;
    """)
    fqn = f'"{database}"."public"."per_minute"'
    rows = door.execute(f"SELECT id FROM deltastream.sys.queries WHERE sink_fqn = '{fqn}'")
    door.close()
    [[query]] = rows
    return str(query)


def take_a_savepoint(page: Page, seed: str) -> None:
    """The dialog shows the statement before it runs it."""
    page.get_by_role("button", name="Savepoint").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Take the savepoint")).to_be_disabled()
    dialog.get_by_label("Name").fill(f"console_{seed}")
    expect(dialog).to_contain_text(f'CREATE SAVEPOINT "console_{seed}" ON QUERY')
    dialog.get_by_role("button", name="Take the savepoint").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("tab", name="History").click()
    expect(page.get_by_role("region", name="Savepoints")).to_contain_text(f"console_{seed}")


def follow_the_lineage(page: Page, snap: Callable[[str], None], *, database: str) -> None:
    """Open the page by keyboard, find a relation by search, and follow a column to its origin."""
    open_by_letters(page, "l", page.get_by_role("heading", name="Lineage"))
    page.get_by_label("Find an entity, a relation or a query").fill(f"{database} per_minute changelog")
    page.get_by_role("region", name="Matches").get_by_role("button").first.click()
    side = page.get_by_role("complementary", name="relation per_minute")
    expect(side).to_contain_text("readings.at")
    graph = page.get_by_role("region", name="Lineage")
    expect(graph.locator(".node")).to_have_count(5)
    check(page, snap, "console-5-lineage")
    page.get_by_role("button", name="Up", exact=True).click()
    expect(graph.locator(".node")).to_have_count(4)
    side.get_by_role("button", name="readings.at").first.click()
    expect(page.get_by_role("complementary", name="relation readings")).to_contain_text("per_minute")


def read_the_catalog(page: Page, snap: Callable[[str], None], *, database: str) -> None:
    """Open the catalog: it lists the relation of the journey."""
    page.get_by_role("link", name="Catalog").click()
    relations = page.get_by_role("region", name=f"Relations of {database}.public")
    expect(relations.get_by_role("link", name="readings")).to_be_visible()
    check(page, snap, "console-6-catalog")


def read_why_a_role_may(page: Page, snap: Callable[[str], None], *, database: str) -> None:
    """The chain of privileges of a role on an object, with their sources."""
    page.get_by_role("link", name="Access").click()
    page.get_by_role("tab", name="May a role…").click()
    page.get_by_label("on", exact=True).fill(f"schema {database}.public")
    answer = page.get_by_role("status", name="Answer")
    expect(answer).to_contain_text("Yes, sysadmin may.")
    expect(answer.get_by_role("listitem").first).to_contain_text(
        f"on the database {database} (owned by sysadmin)"
    )
    check(page, snap, "console-9-may")


def create_a_store(page: Page, snap: Callable[[str], None], kafka: KafkaClient, *, name: str) -> None:
    """The form names the property that is wrong; corrected, it creates the store and shows its entities."""
    page.get_by_role("link", name="Stores").click()
    page.get_by_role("button", name="New store").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill(name)
    dialog.get_by_label("uris").fill("nowhere")
    dialog.get_by_role("button", name="Test and create").click()
    expect(dialog.get_by_role("listitem").filter(has_text="Properties failed")).to_be_visible()
    expect(dialog.get_by_label("uris")).to_be_focused()
    check(page, snap, "console-7-store")
    dialog.get_by_label("uris").fill(kafka.bootstrap)
    dialog.get_by_text("More properties").click()
    dialog.get_by_label("tls.disabled").select_option("true")
    dialog.get_by_role("button", name="Test and create").click()
    expect(page).to_have_url(re.compile(f"/stores/{name}$"))


def write_a_record(page: Page, snap: Callable[[str], None], *, topic: str) -> None:
    """A record with a header, which the message browser then reads."""
    entities = page.get_by_role("complementary", name="Entities")
    entities.get_by_role("button", name=topic, exact=True).click()
    page.get_by_role("button", name="Write a record").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value").fill('{"written": "by hand"}')
    dialog.get_by_label("partition").fill("1")
    check(page, snap, "console-8-record")
    dialog.get_by_role("button", name="Write the record").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Read", exact=True).click()
    expect(page.get_by_role("gridcell", name='{"written": "by hand"}')).to_be_visible()


def create_a_stream(page: Page, *, database: str) -> None:
    """A stream over the topic, whose columns the server has inferred from its records."""
    page.get_by_role("button", name="Create a relation").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name, as database.schema.name").fill(f"{database}.public.inferred")
    dialog.get_by_role("button", name="Infer the columns").click()
    expect(dialog.get_by_label("The statement, which you may change")).to_have_value(re.compile("written"))
    dialog.get_by_role("button", name="Create it").click()
    expect(dialog).to_be_hidden()


def insert_a_row(page: Page, snap: Callable[[str], None], *, database: str) -> None:
    """A row by the form: the error of the server is shown at its field; corrected, the topic contains the record."""
    page.get_by_role("button", name="Insert a row").click()
    dialog = page.get_by_role("dialog")
    insert = dialog.get_by_role("button", name="Insert it")
    expect(insert).to_be_enabled()
    dialog.get_by_label(re.compile("^at ")).fill("77")
    dialog.get_by_label("What temp is").select_option("sql")
    temp = dialog.get_by_label(re.compile("^temp "))
    temp.fill("'warm'")
    expect(dialog.locator("pre")).to_contain_text("INSERT INTO")
    insert.click()
    expect(temp).to_have_attribute("aria-invalid", "true")
    expect(temp).to_be_focused()
    expect(dialog).to_contain_text("the column temp of the sink is BIGINT")
    check(page, snap, "console-10-insert")
    temp.fill("40 + 2")
    insert.click()
    expect(dialog).to_be_hidden()
    # The reading of the records goes on.
    expect(page.get_by_role("gridcell", name=re.compile('"at":77,"temp":42'))).to_be_visible()
    page.goto(page.url.split("/stores/")[0] + f"/catalog/{database}/public/readings")
    page.get_by_role("button", name="Insert a row").click()
    dialog.get_by_label(re.compile("^temp ")).fill("1.5")
    expect(dialog).to_contain_text("Write a whole number, such as 42.")
    expect(insert).to_be_disabled()
    page.keyboard.press("Escape")


def see_the_slot_hours(page: Page, snap: Callable[[str], None]) -> None:
    """The hours of the pool's slots, and the slots over time."""
    page.get_by_role("link", name="Resources").click()
    hours = page.get_by_role("region", name="Slot hours of the last 24 hours")
    row = hours.get_by_role("row").filter(has_text="default_pool")
    expect(row.get_by_role("cell").nth(2)).to_have_text(re.compile("[1-9]"))
    # A point for each minute.
    expect(page.get_by_text("Slots of default_pool", exact=True)).to_be_visible()
    check(page, snap, "console-11-slots")


SHOP = """
CREATE STORE {name} WITH ('type' = KAFKA, 'uris' = '{broker}', 'tls.disabled' = TRUE);
CREATE DATABASE {name};
USE DATABASE {name};
CREATE STREAM orders (item VARCHAR, price BIGINT) WITH ('store' = '{name}', 'topic' = '{name}', 'value.format' = JSON);
CREATE MATERIALIZED VIEW sold AS SELECT item, price FROM orders WITH ('starting.position' = 'earliest');
"""


@pytest.mark.prove
def test_a_user_replaces_a_query_charts_its_view_and_sees_what_a_drop_takes_along(
    page: Page, snap: Callable[[str], None], headrace_server: HeadraceProcess, kafka: KafkaClient, seed: str
) -> None:
    name = f"shop_{seed}"
    kafka.create(name)
    items = ("lamp", "chair", "lamp", "")
    kafka.produce(name, [(None, json.dumps({"item": item, "price": 5})) for item in items])
    door = RestDoor(headrace_server)
    door.execute(SHOP.format(name=name, broker=kafka.bootstrap))
    sink = f'\'"{name}"."public"."sold"\''
    [[query]] = door.execute(f"SELECT id FROM deltastream.sys.queries WHERE sink_fqn = {sink}")
    counted = f"SELECT COUNT(*) FROM {name}.public.sold;"
    until(lambda: door.execute(counted) == [[str(len(items))]], "the rows of the view")
    door.close()

    page.goto(f"{home_of(headrace_server)}/queries/{query}")
    sign_in(page, headrace_server.token)
    page.get_by_role("button", name="Replace").click()
    dialog = page.get_by_role("dialog")
    select = dialog.get_by_label("The whole SELECT")
    expect(select).to_have_value(re.compile("price"))
    expect(dialog.get_by_role("button", name="Replace it")).to_be_disabled()
    source = f"{name}.public.orders WITH ('starting.position' = 'earliest')"
    select.fill(f"SELECT item, price FROM {source} WHERE item <> ''")
    dialog.get_by_role("button", name="Explain the change").click()
    expect(dialog.locator("pre")).to_contain_text("Replacement: compatible")
    check(page, snap, "replace-1-explained")
    dialog.get_by_role("button", name="Replace it").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_text("version 2", exact=True)).to_be_visible()

    page.goto(f"{home_of(headrace_server)}/catalog/{name}/public/sold?tab=sample")
    page.get_by_label("Query of the view").fill(
        f"SELECT item, COUNT(*) AS n FROM {name}.public.sold GROUP BY item;"
    )
    page.get_by_label("Run again every ten seconds").check()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(
        page.get_by_role("grid", name="Sample").get_by_role("gridcell", name="2", exact=True)
    ).to_be_visible()
    page.get_by_role("button", name="Chart").click()
    expect(page.get_by_role("row", name="lamp 2")).to_be_visible()
    check(page, snap, "replace-2-chart")

    page.get_by_role("link", name="Lineage").first.click()
    page.get_by_label("Find an entity, a relation or a query").fill(f"{name} orders stream")
    page.get_by_role("region", name="Matches").get_by_role("button").first.click()
    side = page.get_by_role("complementary", name="relation orders")
    side.get_by_role("button", name="Drop").click()
    impact = page.get_by_role("dialog").get_by_role("list")
    expect(impact.get_by_role("listitem").filter(has_text="sold")).not_to_have_count(0)
    check(page, snap, "replace-3-impact")
    dialog.get_by_label("Type orders to confirm").fill("orders")
    dialog.get_by_role("button", name=re.compile("Drop it and")).click()
    expect(dialog).to_be_hidden()
    expect(side).to_be_hidden()
