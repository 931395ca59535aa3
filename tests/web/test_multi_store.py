"""The multi-store tutorial (docs/tutorials/multi-store.md) by clicks, in a real Chromium: Kinesis and Kafka, two queries, their rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

import pytest
from playwright.sync_api import Locator, Page, expect

from harness.kafka import KafkaClient
from harness.kinesis import KinesisClient
from harness.process import HeadraceProcess
from tests.web.browser import check, create_a_kinesis_store, home_of, run, run_state, sign_in

pytestmark = [
    pytest.mark.browser,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.prove,
]

VIEW = {"viewtime": 1_700_000_000_000, "userid": "User_1", "pageid": "Page_10"}
USER = {"registertime": 1_700_000_001_000, "userid": "User_1", "regionid": "Region_1", "interests": ["News"]}
COPY = """
CREATE STREAM pageviews_copy WITH ('store' = '{kafka}', 'topic' = 'copy-{seed}', 'topic.partitions' = 1, 'topic.replicas' = 1) AS
SELECT * FROM pageviews_kinesis WITH ('starting.position' = 'earliest');
"""
ENRICHED = """
CREATE STREAM pageviews_enriched WITH ('store' = '{kinesis}', 'topic' = 'enriched-{seed}') AS
SELECT p.viewtime, p.userid, p.pageid, u.regionid, u.interests[1] AS interest
FROM pageviews_kinesis p WITH ('starting.position' = 'earliest')
JOIN users_kafka u WITH ('starting.position' = 'earliest') WITHIN 5 MINUTES ON u.userid = p.userid;
"""


def test_a_user_joins_the_streams_of_two_stores_by_clicks(
    page: Page,
    snap: Callable[[str], None],
    headrace_server: HeadraceProcess,
    kinesis: KinesisClient,
    kafka: KafkaClient,
    seed: str,
) -> None:
    names = {
        "seed": seed,
        "database": f"tutorial_{seed}",
        "kinesis": f"kinesis_{seed}",
        "kafka": f"kafka_{seed}",
    }
    home = home_of(headrace_server)
    page.goto(f"{home}/")
    sign_in(page, headrace_server.token)
    editor = page.get_by_label("SQL editor")
    expect(editor).to_be_focused()
    run(
        page,
        f"CREATE DATABASE {names['database']}; USE DATABASE {names['database']};",
        keys="Control+Shift+Enter",
    )
    expect(run_state(page)).to_have_attribute("data-state", "done")
    expect(page.get_by_test_id("context-database")).to_contain_text(names["database"])

    page.get_by_role("link", name="Stores").click()
    create_a_kinesis_store(page, kinesis.server.uri, names["kinesis"])
    create_an_entity(page, f"pageviews-{seed}", {"kinesis.shards": "2"})
    write_a_record(page, VIEW)
    check(page, snap, "tutorial-1-kinesis")
    create_a_stream(page, f"{names['database']}.public.pageviews_kinesis", timestamp="viewtime")

    page.get_by_role("link", name="Stores").first.click()
    create_a_kafka_store(page, kafka, names["kafka"])
    create_an_entity(page, f"users-{seed}", {"topic.partitions": "1", "topic.replicas": "1"})
    write_a_record(page, USER)
    create_a_stream(page, f"{names['database']}.public.users_kafka", timestamp="registertime")
    check(page, snap, "tutorial-2-kafka")

    page.get_by_role("link", name="SQL").click()
    for text in (COPY, ENRICHED):
        create_a_query(page, text.format(**names))
    check(page, snap, "tutorial-3-queries")
    page.goto(f"{home}/stores/{names['kafka']}")
    read(page, f"copy-{seed}", VIEW)
    check(page, snap, "tutorial-4-copy")
    page.goto(f"{home}/stores/{names['kinesis']}")
    read(page, f"enriched-{seed}", {**VIEW, "regionid": "Region_1", "interest": "News"})
    check(page, snap, "tutorial-5-enriched")
    read_its_rows(page, snap, database=names["database"])
    see_the_lineage(page, snap, database=names["database"])


def create_a_kafka_store(page: Page, kafka: KafkaClient, store: str) -> None:
    page.get_by_role("button", name="New store").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill(store)
    dialog.get_by_label("uris").fill(kafka.bootstrap)
    dialog.get_by_text("More properties").click()
    dialog.get_by_label("tls.disabled").select_option("true")
    dialog.get_by_role("button", name="Test and create").click()
    expect(page).to_have_url(re.compile(f"/stores/{store}$"))


def create_an_entity(page: Page, name: str, layout: Mapping[str, str]) -> None:
    """Create an entity of the store that is shown, and choose it."""
    page.get_by_role("button", name="New entity").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill(name)
    for label, value in layout.items():
        dialog.get_by_label(label, exact=True).fill(value)
    dialog.get_by_role("button", name="Create it").click()
    expect(dialog).to_be_hidden()
    entity(page, name).click()


def entity(page: Page, name: str) -> Locator:
    return page.get_by_role("complementary", name="Entities").get_by_role("button", name=name, exact=True)


def write_a_record(page: Page, record: Mapping[str, object]) -> None:
    page.get_by_role("button", name="Write a record").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value").fill(json.dumps(record))
    dialog.get_by_label("Key").fill(str(record["userid"]))
    dialog.get_by_role("button", name="Write the record").click()
    expect(dialog).to_be_hidden()


def create_a_stream(page: Page, name: str, *, timestamp: str) -> None:
    """Create a stream over the chosen entity with the columns that the server infers, and name the column of its event time."""
    page.get_by_role("button", name="Create a relation").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name, as database.schema.name").fill(name)
    dialog.get_by_role("button", name="Infer the columns").click()
    statement = dialog.get_by_label("The statement, which you may change")
    expect(statement).to_have_value(re.compile("userid VARCHAR"))
    inferred = statement.input_value()
    statement.fill(re.sub(r"\)\s*;\s*$", f", 'timestamp' = '{timestamp}');", inferred))
    dialog.get_by_role("button", name="Create it").click()
    expect(dialog).to_be_hidden()


def create_a_query(page: Page, text: str) -> None:
    """Run a CREATE … AS, whose plan the page shows first."""
    run(page, text.strip())
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(dialog).to_be_hidden()
    expect(run_state(page)).to_have_attribute("data-state", "done")


def read(page: Page, name: str, record: Mapping[str, object]) -> None:
    """Wait until an entity contains the record."""
    entity(page, name).click()
    page.get_by_role("button", name="Read", exact=True).click()
    expect(page.get_by_role("gridcell", name=json.dumps(record, separators=(",", ":")))).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()


def read_its_rows(page: Page, snap: Callable[[str], None], *, database: str) -> None:
    """Show the rows of the joined stream from its page in the catalog."""
    page.get_by_role("link", name="Catalog").click()
    relations = page.get_by_role("region", name=f"Relations of {database}.public")
    relations.get_by_role("link", name="pageviews_enriched").click()
    expect(page.get_by_role("heading", name="pageviews_enriched")).to_be_visible()
    check(page, snap, "tutorial-6-relation")
    page.get_by_role("tab", name="Sample").click()
    page.get_by_role("button", name=re.compile("The first")).click()
    expect(page.get_by_role("grid", name="Streaming rows").get_by_text("Region_1")).to_be_visible()
    check(page, snap, "tutorial-7-rows")
    page.get_by_role("button", name="Stop", exact=True).click()


def see_the_lineage(page: Page, snap: Callable[[str], None], *, database: str) -> None:
    """The graph has both stores' entities, the four relations and the two queries between them."""
    page.get_by_role("link", name="Lineage").first.click()
    page.get_by_label("Find an entity, a relation or a query").fill(f"{database} pageviews_enriched stream")
    page.get_by_role("region", name="Matches").get_by_role("button").first.click()
    side = page.get_by_role("complementary", name="relation pageviews_enriched")
    expect(side).to_contain_text("users_kafka.regionid")
    check(page, snap, "tutorial-8-lineage")
    page.get_by_role("button", name="Up", exact=True).click()
    # The relation, its query, and both sources with their entities.
    expect(page.get_by_role("region", name="Lineage").locator(".node")).to_have_count(6)
