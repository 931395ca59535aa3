"""A server on the data directory that the newest landed release has left: a query of each kind computes what a batch would.

Only the checkpoint of the windowed query is recorded. The others start at the end of their topics, as they were created to.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.kafka import KafkaClient
from harness.patience import until
from harness.postgresql import PostgresServer
from harness.process import HeadraceProcess
from headrace.catalog.catalog import Catalog
from headrace.connectors.kafka.spark import identify
from headrace.planner.physical import ReadEntity, SparkPlan
from headrace.runtime.kafka_broker import KafkaBroker
from headrace.testing.door import RestDoor
from tests.faults.workload import differences, text
from tests.releases import LANDED, RECORDS, SINK, SOURCE, WINDOWED, restore, restore_checkpoint

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.faults]

NEWEST = max(LANDED, key=lambda version: [int(number) for number in version[1:].split("_")])
FIRST_MS = 1_767_225_600_000
"""2026-01-01: the recorded window is that of its first minute."""
ORDERS = 300
CUSTOMERS = ("a", "b", "c", "d", "vip")
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
_SINKS = "large per_customer visits paid named located reduced dearest running rises cheap"
TOPICS = {SOURCE: 1, "release_payments": 2, "release_customers": 1, "release_cities": 1, SINK: 1} | {
    f"release_{name}": 1 for name in _SINKS.split()
}
"""The topics of the recorded catalog, with their partitions."""


@dataclass(frozen=True)
class Order:
    """Row of `orders`; `at` is in milliseconds."""

    id: int
    customer: str
    amount: float
    at: int


@dataclass(frozen=True)
class Payment:
    """Row of `payments`."""

    order_id: int
    paid: float
    at: int


@dataclass(frozen=True)
class Customer:
    """Row of the changelog `customers`: the version of `id` from `at` on."""

    id: str
    name: str
    city: str
    at: int


def _at(number: int) -> int:
    return FIRST_MS + 40_000 + 2_000 * number


END_MS = _at(ORDERS) + 2 * HOUR_MS
"""The time of the last rows, which close all windows and patterns."""
NEW_ORDERS = [
    *(
        Order(100 + n, CUSTOMERS[n % 5], n * 37 % 300 / 2, _at(n))
        for n in range(ORDERS)
    ),
    Order(1_000_000, "z", 5.0, END_MS),
]  # fmt: skip
PAYMENTS = [
    *(Payment(100 + n - n * 53 % 200, n / 2, _at(n)) for n in range(ORDERS)),
    *(Payment(-1, 0.0, END_MS) for _ in range(2)),
]
NEW_CUSTOMERS = [
    *(
        Customer(CUSTOMERS[n // 5 % 5], f"name {n}", f"city {n % 3}", _at(n) - 1_000)
        for n in range(0, ORDERS, 5)
    ),
    Customer("z", "last", "nowhere", END_MS),
]
CITIES = [(f"city {n // 50 % 2}", f"country {n}") for n in range(10, ORDERS, 50)]
RECORDED_ORDERS = [
    Order(row["id"], row["customer"], row["amount"], FIRST_MS + int(row["at"][-2:]) * 1_000)
    for row in map(json.loads, RECORDS)
]


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[PostgresServer]:
    (tmp_path / "tables").mkdir()
    with PostgresServer(tmp_path / "tables", 16) as server:
        server.execute(
            "CREATE TABLE discounts (customer text PRIMARY KEY, rate double precision)",
            "CREATE TABLE stored (id bigint, customer text, amount double precision)",
        )
        yield server


@pytest.fixture
def server(
    broker: KafkaBroker, kafka: KafkaClient, tables: PostgresServer, tmp_path: Path
) -> Iterator[HeadraceProcess]:
    """A server on the recorded directory, whose stores are here; its queries know where they start."""
    for topic, partitions in TOPICS.items():
        kafka.create(topic, partitions=partitions)
    # In the place of the records that were read: if the query read them again, or without its state, the sums would differ.
    kafka.produce(
        SOURCE,
        [(None, '{"id": 0, "customer": "a", "amount": 1000.0, "at": "2026-01-01 00:00:01"}')] * len(RECORDS),
    )
    folder = tmp_path / "recorded"
    folder.mkdir()
    restore(NEWEST, folder)
    catalog = Catalog.open(folder)
    for name, address in (("kafka", broker.bootstrap), ("pg", tables.uri)):
        store = catalog.store(name)
        assert store is not None
        catalog.update_store(replace(store, properties={**store.properties, "uris": address}))
    windowed = catalog.query_by_name(WINDOWED)
    assert windowed is not None
    sources = {
        query.id: sum(isinstance(step, ReadEntity) for step in SparkPlan.from_json(query.plan).steps)
        for query in catalog.queries()
        if query.name != "both"
    }
    catalog.close()
    identities = identify({"uris": broker.bootstrap, "tls.disabled": "TRUE"})
    (folder / "checkpoints").mkdir()
    restore_checkpoint(
        NEWEST, folder / "checkpoints" / windowed.id, {**identities((SOURCE,)), **identities((SINK,))}
    )
    server = HeadraceProcess(folder, environment={"HEADRACE_ADOPT_DATA_DIR": "true"})
    server.start()

    def missing() -> list[str]:
        started = {
            query: len(list((folder / "checkpoints" / query).glob("sources/*/0"))) for query in sources
        }
        return [query for query, count in sources.items() if started[query] < count]

    until(lambda: not missing(), lambda: f"the first positions of {missing()}\n{server.log()}")
    yield server
    server.stop()


def test_each_kind_of_query_continues(
    server: HeadraceProcess, kafka: KafkaClient, tables: PostgresServer
) -> None:
    kafka.produce(
        "release_cities", [(None, json.dumps({"city": city, "country": name})) for city, name in CITIES]
    )
    kafka.produce("release_customers", map(_record, NEW_CUSTOMERS))
    for partition in range(2):
        kafka.produce("release_payments", map(_record, PAYMENTS[partition::2]), partition=partition)
    kafka.produce(SOURCE, map(_record, NEW_ORDERS))
    door = RestDoor(server)
    door.execute("USE DATABASE shop;")
    expected = {kind: Counter(rows) for kind, rows in _expected().items()}
    assert all(expected.values()), expected

    def faults() -> list[str]:
        seen = _seen(kafka, door, tables)
        return differences([(kind, expected[kind], seen[kind]) for kind in expected])

    until(lambda: not faults(), lambda: f"{faults()}\n{server.driver_logs()}")
    door.close()


def _record(row: Order | Payment | Customer) -> tuple[None, str]:
    return None, json.dumps({**vars(row), "at": text(row.at)})


def _expected() -> dict[str, list[tuple[object, ...]]]:
    by_customer: dict[str, list[Order]] = defaultdict(list)
    for order in NEW_ORDERS:
        by_customer[order.customer].append(order)
    windows: dict[tuple[int, str], list[float]] = defaultdict(list)
    for order in [*RECORDED_ORDERS, *NEW_ORDERS[:-1]]:
        windows[order.at // MINUTE_MS * MINUTE_MS, order.customer].append(order.amount)
    at = {order.id: order.at for order in NEW_ORDERS}
    countries = dict(CITIES)
    customers = {version.id: version for version in NEW_CUSTOMERS}
    large = [order for order in NEW_ORDERS if order.amount > 100]
    return {
        "by_minute": [(text(start), customer, len(amounts), sum(amounts)) for (start, customer), amounts in windows.items()],
        # Two queries write into one stream.
        "large": [(order.id, order.customer, order.amount) for order in [*large, *by_customer["vip"]]],
        "per_customer": [(name, len(orders), max(order.amount for order in orders)) for name, orders in by_customer.items()],
        "paid": [
            (payment.order_id, payment.paid)
            for payment in PAYMENTS
            if abs(at.get(payment.order_id, 0) - payment.at) <= 5 * MINUTE_MS
        ],
        "named": [
            (order.id, versions[-1].name)
            for order in NEW_ORDERS[:-1]
            if (versions := [version for version in NEW_CUSTOMERS if version.id == order.customer and version.at <= order.at])
        ],
        "located": [
            (version.id, version.name, *((version.city, countries[version.city]) if version.city in countries else (None, None)))
            for version in customers.values()
        ],
        "dearest": [
            (name, order.id, order.amount, place)
            for name, orders in by_customer.items()
            for place, order in enumerate(sorted(orders, key=lambda order: (-order.amount, order.id))[:3], 1)
        ],
        "rises": [match for name, orders in by_customer.items() for match in _rises(name, orders)],
        "sales": [(name, sum(order.amount for order in orders)) for name, orders in by_customer.items()],
        "stored": [(order.id, order.customer, order.amount) for order in NEW_ORDERS],
    }  # fmt: skip


def _rises(customer: str, orders: list[Order]) -> Iterator[tuple[object, ...]]:
    place = 0
    while place + 2 < len(orders):
        low, high, down = orders[place : place + 3]
        if low.amount > 10 and high.amount > 10 and down.amount < 5 and down.at - low.at < HOUR_MS:
            yield customer, low.amount, high.amount
            place += 3
        else:
            place += 1


def _seen(
    kafka: KafkaClient, door: RestDoor, tables: PostgresServer
) -> dict[str, Counter[tuple[object, ...]]]:
    columns = {
        "by_minute": ("window_start", "customer", "n", "total"),
        "large": ("id", "customer", "amount"),
        "per_customer": ("customer", "n", "most"),
        "paid": ("id", "paid"),
        "named": ("id", "name"),
        "located": ("id", "name", "city", "country"),
        "dearest": ("customer", "id", "amount", "place"),
        "rises": ("customer", "low", "high"),
    }
    seen: dict[str, Counter[tuple[object, ...]]] = {}
    for kind, names in columns.items():
        records = kafka.consume(f"release_{kind}")
        if kind in ("per_customer", "located", "dearest"):
            # The last record of each key.
            records = list(dict(records).items())
        values = (json.loads(value) for _, value in records if value is not None)
        seen[kind] = Counter(tuple(value[name] for name in names) for value in values)
    view = door.execute("SELECT customer, total FROM sales;")
    seen["sales"] = Counter((customer, float(total or 0)) for customer, total in view)
    seen["stored"] = Counter(tables.execute("SELECT id, customer, amount FROM stored"))
    return seen
