"""The queries whose throughput is measured: their rows, and the same question in Headrace's SQL and in Flink's.

Rows are in the order of event time, so that neither engine drops any; a last row far ahead moves the watermark past all others.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from benchmarks.records import PARTITIONS, Output, Record, Sink
from benchmarks.results import digest
from benchmarks.sizes import Sizes

START_MS = 1_700_000_000_000
WINDOW_MS = 10_000
ADVANCE_MS = 2_000
RECORDS_PER_WINDOW_AND_KEY = 10
FAR_AHEAD_MS = START_MS + 86_400_000
OFFERS_PER_WINDOW = 100_000
STRIDE = 7919
NOTE = "a record of about one hundred bytes"


@dataclass(frozen=True)
class Source:
    """A topic and its relation, which is a changelog if there is a `key`. `rows` returns the records of each partition."""

    name: str
    columns: dict[str, str]
    rows: Callable[[Sizes], list[Iterator[Record]]]
    key: str = ""

    def headrace(self, topic: str) -> str:
        """CREATE STREAM or CREATE CHANGELOG."""
        declared = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        kind, key = ("CHANGELOG", f", PRIMARY KEY ({self.key})") if self.key else ("STREAM", "")
        return (
            f"CREATE {kind} {self.name} ({declared}{key}) WITH ('topic' = '{topic}', 'value.format' = JSON, "
            "'timestamp' = 'at', 'starting.position' = 'earliest');"
        )

    def flink(self, topic: str, bootstrap: str) -> str:
        """CREATE TABLE; its event time is the column `ts`."""
        declared = ", ".join(f"`{name}` {kind}" for name, kind in self.columns.items())
        declared += ", ts AS TO_TIMESTAMP_LTZ(`at`, 3), WATERMARK FOR ts AS ts"
        connector = "'connector' = 'kafka', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset'"
        if self.key:
            declared += f", PRIMARY KEY ({self.key}) NOT ENFORCED"
            connector = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
        return (
            f"CREATE TABLE {self.name} ({declared}) WITH ({connector}, 'topic' = '{topic}', "
            f"'properties.bootstrap.servers' = '{bootstrap}')"
        )


@dataclass(frozen=True)
class Shape:
    """A query; `flink` says the same in Flink's SQL where that is written otherwise. `records` is what it reads, of all sources.

    Either each result row comes once, and there are `outputs` of them; or rows replace one another by `key`, and the column `n` of the last
    ones sums up to `total`.
    """

    name: str
    sources: tuple[Source, ...]
    select: str
    flink: str = ""
    records: Callable[[Sizes], int] = field(kw_only=True)
    outputs: Callable[[Sizes], int] | None = None
    total: Callable[[Sizes], int] = lambda _sizes: 0
    key: str = ""
    changelog: bool = False
    stateless: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    def headrace(self, sink: str) -> str:
        """CREATE STREAM AS or CREATE CHANGELOG AS."""
        return f"CREATE {'CHANGELOG' if self.changelog else 'STREAM'} {sink} AS {self.select}"

    @property
    def flink_select(self) -> str:
        """The SELECT for Flink's INSERT INTO."""
        return self.flink or self.select

    def finished(self, sink: Sink, sizes: Sizes, *, within: float, every: Callable[[], None]) -> Output:
        """Wait for all results, and return the sink's content. Replaced rows cannot be counted: then the sink is quiet, and `n` is
        right."""
        if self.outputs:
            return sink.wait(self.outputs(sizes), within=within, every=every)
        deadline = time.monotonic() + within
        while True:
            output = sink.settle(within=deadline - time.monotonic(), every=every)
            if digest(sink.records(), changelog=True).n == self.total(sizes):
                return output


def orders(count: int) -> list[Iterator[bytes]]:
    """Values of the stream of `projection`, a list for each partition."""

    def values(first: int) -> Iterator[bytes]:
        for number in range(first, count, PARTITIONS):
            yield (
                b'{"at":%d,"id":%d,"item":"item-%04d","price":%d.5,"note":"a record of about one hundred and twenty bytes"}'
                % (START_MS + number, number, number % 10_000, number % 100)
            )

    return [values(first) for first in range(PARTITIONS)]


def orders_definition(name: str, topic: str) -> str:
    """A stream over `orders`."""
    return Source(name, ORDERS.columns, ORDERS.rows).headrace(topic)


def _plain(pieces: list[Iterator[bytes]]) -> list[Iterator[Record]]:
    return [((None, value) for value in values) for values in pieces]


def _record(row: dict[str, object], key: str = "") -> Record:
    """A key is JSON, as Flink's upsert-kafka writes it."""
    return json.dumps({key: row[key]}).encode() if key else None, json.dumps(
        row, separators=(",", ":")
    ).encode()


def pieces(
    numbers: Callable[[int], Iterable[int]],
    row: Callable[[int], dict[str, object]],
    key: str = "",
    end: bool = True,
) -> list[Iterator[Record]]:
    """The rows of `numbers(partition)`; with `end`, one more for each, far ahead: its columns are those of row -1 - partition."""

    def records(partition: int) -> Iterator[Record]:
        for number in numbers(partition):
            yield _record(row(number), key)
        if end:
            yield _record({**row(-1 - partition), "at": FAR_AHEAD_MS + partition}, key)

    return [records(partition) for partition in range(PARTITIONS)]


def every(count: int) -> Callable[[int], range]:
    return lambda partition: range(partition, count, PARTITIONS)


def _clicks(sizes: Sizes) -> list[Iterator[Record]]:
    """Each window holds each key ten times, over both partitions."""
    keys, per_window = sizes.window_keys, sizes.window_keys * RECORDS_PER_WINDOW_AND_KEY

    def row(number: int) -> dict[str, object]:
        page = number * STRIDE % keys if number >= 0 else number
        at = START_MS + number * WINDOW_MS // per_window
        return {"at": at, "page": page, "ms": number % 1000, "note": NOTE}

    return pieces(every(sizes.window_records), row)


def _trades(sizes: Sizes) -> list[Iterator[Record]]:
    def row(number: int) -> dict[str, object]:
        key = number * STRIDE % sizes.join_keys if number >= 0 else -1
        at = START_MS + 1000 + number // 10
        return {"at": at, "id": number, "currency": key, "amount": number % 100 + 0.5, "note": NOTE}

    return pieces(every(sizes.join_records), row)


def _rates(sizes: Sizes) -> list[Iterator[Record]]:
    return pieces(
        every(sizes.join_keys), lambda key: {"at": START_MS, "currency": key, "rate": 1.5}, "currency"
    )


def _pledges(sizes: Sizes) -> list[Iterator[Record]]:
    def row(number: int) -> dict[str, object]:
        return {"at": START_MS + number // 10, "id": number, "amount": number % 100 + 0.5, "note": NOTE}

    return pieces(every(sizes.interval_records // 2), row)


def _payments(sizes: Sizes) -> list[Iterator[Record]]:
    """Return a payment for each pledge, up to four seconds later; the payments that end the topic match no pledge."""

    def row(number: int) -> dict[str, object]:
        pledge = number if number >= 0 else number - 10
        return {"at": START_MS + number // 10 + number * 31 % 4000, "pledge": pledge, "paid": number % 7}

    count = sizes.interval_records // 2
    return pieces(
        lambda partition: sorted(every(count)(partition), key=lambda number: row(number)["at"]), row
    )  # type: ignore[arg-type,return-value]


def _accounts(sizes: Sizes) -> list[Iterator[Record]]:
    """Versions of `changelog_keys` accounts; an account is always in one partition, and changes its branch with each version."""

    def row(number: int) -> dict[str, object]:
        account = number % sizes.changelog_keys
        branch = (account + number // sizes.changelog_keys) % 500
        return {"at": START_MS + number // 10, "account": account, "branch": branch, "amount": number % 1000}

    return pieces(every(sizes.changelog_records), row, "account", end=False)


def _branches(_sizes: Sizes) -> list[Iterator[Record]]:
    def row(number: int) -> dict[str, object]:
        return {"at": START_MS, "branch": number, "region": number % 20}

    return pieces(every(500), row, "branch", end=False)


def _bids(sizes: Sizes) -> list[Iterator[Record]]:
    return pieces(every(sizes.rank_records), _bid(sizes), end=False)


def _bid(sizes: Sizes) -> Callable[[int], dict[str, object]]:
    def row(number: int) -> dict[str, object]:
        auction = number * STRIDE % sizes.rank_keys
        return {
            "at": START_MS + number // 10,
            "n": number,
            "auction": auction,
            "price": number * 2_654_435_761 % 1_000_003,
        }

    return row


def _quotes(sizes: Sizes) -> list[Iterator[Record]]:
    """Return quotes as bids, each in a millisecond of its own: for a pattern Flink drops rows of the watermark's own time."""

    def row(number: int) -> dict[str, object]:
        return {**_bid(sizes)(number), "at": START_MS + number}

    return pieces(every(sizes.rank_records), row)


_DEAR = 500_000
"""As in `_PEAKS`."""


def _peaks(sizes: Sizes) -> int:
    """Return how often prices of an auction rise above `_DEAR` and fall again."""
    was_dear: dict[object, bool | None] = {}
    peaks = 0
    for number in range(sizes.rank_records):
        row = _bid(sizes)(number)
        dear, before = int(str(row["price"])) > _DEAR, was_dear.get(row["auction"])
        peaks += before is True and not dear
        # A rise that nobody saw begin is no peak.
        was_dear[row["auction"]] = dear if before is not None or not dear else None
    return peaks


def _offers(sizes: Sizes) -> list[Iterator[Record]]:
    """Return bids of which the auctions with small numbers get the most."""
    return pieces(every(sizes.window_records), _offer)


def _offer(number: int) -> dict[str, object]:
    return {
        "at": START_MS + number * WINDOW_MS // OFFERS_PER_WINDOW,
        "n": number,
        "auction": number % (1 + number * STRIDE % 9973),
        "price": number * 2_654_435_761 % 1_000_003,
        "note": NOTE,
    }


def _dearest(sizes: Sizes) -> int:
    """Return how many offers have the highest price of their window."""
    prices = [int(str(_offer(number)["price"])) for number in range(sizes.window_records)]
    windows = (
        prices[start : start + OFFERS_PER_WINDOW] for start in range(0, len(prices), OFFERS_PER_WINDOW)
    )
    return sum(window.count(max(window)) for window in windows)


def _hottest(sizes: Sizes) -> int:
    """Return how many auctions have the most offers of their window, of all windows of a HOP."""
    panes: list[Counter[object]] = []
    for number in range(sizes.window_records):
        pane = number * (WINDOW_MS // ADVANCE_MS) // OFFERS_PER_WINDOW
        if pane == len(panes):
            panes.append(Counter())
        panes[pane][_offer(number)["auction"]] += 1
    in_window = WINDOW_MS // ADVANCE_MS
    windows = (
        sum(panes[max(0, end - in_window) : end], Counter()) for end in range(1, len(panes) + in_window)
    )
    return sum(list(window.values()).count(max(window.values())) for window in windows)


def _top_three(sizes: Sizes) -> int:
    prices: dict[int, list[tuple[int, int]]] = {}
    for number in range(sizes.rank_records):
        row = _bid(sizes)(number)
        best = prices.setdefault(int(str(row["auction"])), [])
        best.append((-int(str(row["price"])), number))
        best.sort()
        del best[3:]
    return sum(number for best in prices.values() for _, number in best)


def _window_outputs(panes: int) -> Callable[[Sizes], int]:
    """Every key is in every pane, so in every window that a pane is part of."""

    def outputs(sizes: Sizes) -> int:
        advance = WINDOW_MS // panes
        span = sizes.window_records // (sizes.window_keys * RECORDS_PER_WINDOW_AND_KEY) * WINDOW_MS
        return (span // advance + panes - 1) * sizes.window_keys

    return outputs


ORDERS = Source(
    "orders",
    {"at": "BIGINT", "id": "BIGINT", "item": "VARCHAR", "price": "DOUBLE", "note": "VARCHAR"},
    lambda sizes: _plain(orders(sizes.projection_records)),
)
CLICKS = Source("clicks", {"at": "BIGINT", "page": "INTEGER", "ms": "INTEGER", "note": "VARCHAR"}, _clicks)
TRADES = Source(
    "trades",
    {"at": "BIGINT", "id": "BIGINT", "currency": "INTEGER", "amount": "DOUBLE", "note": "VARCHAR"},
    _trades,
)
RATES = Source("rates", {"at": "BIGINT", "currency": "INTEGER", "rate": "DOUBLE"}, _rates, key="currency")
PLEDGES = Source("pledges", {"at": "BIGINT", "id": "BIGINT", "amount": "DOUBLE", "note": "VARCHAR"}, _pledges)
PAYMENTS = Source("payments", {"at": "BIGINT", "pledge": "BIGINT", "paid": "BIGINT"}, _payments)
ACCOUNTS = Source(
    "accounts",
    {"at": "BIGINT", "account": "BIGINT", "branch": "BIGINT", "amount": "BIGINT"},
    _accounts,
    key="account",
)
BRANCHES = Source(
    "branches", {"at": "BIGINT", "branch": "BIGINT", "region": "BIGINT"}, _branches, key="branch"
)
QUOTES = Source("quotes", {"at": "BIGINT", "n": "BIGINT", "auction": "BIGINT", "price": "BIGINT"}, _quotes)
OFFERS = Source(
    "offers",
    {"at": "BIGINT", "n": "BIGINT", "auction": "BIGINT", "price": "BIGINT", "note": "VARCHAR"},
    _offers,
)
BIDS = Source("bids", {"at": "BIGINT", "n": "BIGINT", "auction": "BIGINT", "price": "BIGINT"}, _bids)

_PER_PAGE = "SELECT window_start, window_end, page, COUNT(*) AS clicks, SUM(ms) AS total FROM"
_BY_WINDOW = "GROUP BY window_start, window_end, page"
_CLICKS_PER_PAGE = "SELECT page, COUNT(*) AS n, SUM(ms) AS total FROM clicks WHERE page >= 0 GROUP BY page"
_CLICKS_PER_PAGE_AND_OF_ALL = (
    "SELECT page, GROUPING(page) AS is_total, COUNT(*) AS n, SUM(ms) AS total FROM clicks "
    "WHERE page >= 0 GROUP BY GROUPING SETS ((page), ())"
)
_HIGHEST_PER_GROUP = (
    "SELECT place, COUNT(*) AS n, SUM(highest) AS total FROM (SELECT p.id, MOD(p.id, 20) AS place, MAX(q.paid) AS highest "
    "FROM pledges AS p JOIN payments AS q {join} GROUP BY p.id, MOD(p.id, 20)) AS x GROUP BY place"
)
_CONVERTED = "SELECT t.id, t.amount * r.rate AS converted, t.note FROM trades AS t"
_PAID = "SELECT p.id, p.amount, q.paid, p.note FROM pledges AS p JOIN payments AS q ON p.id = q.pledge"
_PER_BRANCH = "SELECT branch, COUNT(*) AS n, SUM(amount) AS total FROM accounts GROUP BY branch"
_PER_REGION = (
    "SELECT b.region, COUNT(*) AS n, SUM(a.amount) AS total "
    "FROM accounts AS a JOIN branches AS b ON a.branch = b.branch GROUP BY b.region"
)
_TOP_THREE = (
    "SELECT auction, n, price, place FROM (SELECT auction, n, price, "
    "ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, n) AS place FROM bids) AS x WHERE place <= 3"
)
_LATEST = (
    "SELECT auction, n, price FROM (SELECT auction, n, price, "
    "ROW_NUMBER() OVER (PARTITION BY auction ORDER BY {time} DESC, n DESC) AS place FROM bids) AS x WHERE place = 1"
)

_PEAKS = (
    "SELECT auction, began, ended, n FROM (SELECT {time}, auction, price, n FROM quotes WHERE n >= 0) "
    "MATCH_RECOGNIZE (PARTITION BY auction ORDER BY {time} MEASURES a.n AS began, c.n AS ended, COUNT(b.n) AS n "
    "PATTERN (a b+ c) DEFINE a AS price <= 500000, b AS price > 500000, c AS price <= 500000) AS m"
)
_RUNNING = (
    "SELECT auction, n, price, SUM(price) OVER (PARTITION BY auction ORDER BY {time} {frame}) AS total, "
    "MAX(price) OVER (PARTITION BY auction ORDER BY {time} {frame}) AS most FROM quotes WHERE n >= 0"
)
_DEAREST = (
    "SELECT b.auction, b.n, b.price FROM {tumble} AS b JOIN (SELECT MAX(price) AS most, window_start, window_end FROM {tumble} "
    "GROUP BY window_start, window_end) AS m ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.price = m.most"
)
_HOTTEST = (
    "SELECT a.auction, a.n, a.window_end FROM (SELECT auction, COUNT(*) AS n, window_start, window_end FROM {hop} "
    "GROUP BY auction, window_start, window_end) AS a JOIN (SELECT MAX(c.n) AS most, c.window_start, c.window_end FROM "
    "(SELECT COUNT(*) AS n, window_start, window_end FROM {hop} GROUP BY auction, window_start, window_end) AS c "
    "GROUP BY c.window_start, c.window_end) AS m "
    "ON a.window_start = m.window_start AND a.window_end = m.window_end AND a.n >= m.most"
)
_TEN_ROWS = "ROWS BETWEEN 9 PRECEDING AND CURRENT ROW"

SHAPES = (
    Shape(
        "projection",
        (ORDERS,),
        "SELECT at, id, upper(item) AS item, price * 2 AS price, note FROM orders WHERE id >= 0",
        "SELECT `at`, id, upper(item) AS item, price * 2 AS price, note FROM orders WHERE id >= 0",
        records=lambda sizes: sizes.projection_records,
        outputs=lambda sizes: sizes.projection_records,
        stateless=True,
    ),
    Shape(
        "group_by",
        (CLICKS,),
        _CLICKS_PER_PAGE,
        records=lambda sizes: sizes.window_records,
        total=lambda sizes: sizes.window_records,
        key="page",
        changelog=True,
    ),
    Shape(
        "grouping_sets",
        (CLICKS,),
        _CLICKS_PER_PAGE_AND_OF_ALL,
        records=lambda sizes: sizes.window_records,
        total=lambda sizes: 2 * sizes.window_records,
        key="page, is_total",
        changelog=True,
    ),
    Shape(
        "tumble",
        (CLICKS,),
        f"{_PER_PAGE} TUMBLE(clicks, SIZE {WINDOW_MS // 1000} SECONDS) {_BY_WINDOW}",
        f"{_PER_PAGE} TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '{WINDOW_MS // 1000}' SECOND)) {_BY_WINDOW}",
        records=lambda sizes: sizes.window_records,
        outputs=_window_outputs(1),
        changelog=True,
    ),
    Shape(
        "hop",
        (CLICKS,),
        f"{_PER_PAGE} HOP(clicks, SIZE {WINDOW_MS // 1000} SECONDS, ADVANCE BY {ADVANCE_MS // 1000} SECONDS) {_BY_WINDOW}",
        f"{_PER_PAGE} TABLE(HOP(TABLE clicks, DESCRIPTOR(ts), INTERVAL '{ADVANCE_MS // 1000}' SECOND, "
        f"INTERVAL '{WINDOW_MS // 1000}' SECOND)) {_BY_WINDOW}",
        records=lambda sizes: sizes.window_records,
        outputs=_window_outputs(WINDOW_MS // ADVANCE_MS),
        changelog=True,
    ),
    Shape(
        "interval_join",
        (PLEDGES, PAYMENTS),
        "SELECT p.id, p.amount, q.paid, p.note FROM pledges AS p JOIN payments AS q WITHIN 10 SECONDS ON p.id = q.pledge",
        f"{_PAID} AND p.ts BETWEEN q.ts - INTERVAL '10' SECOND AND q.ts + INTERVAL '10' SECOND",
        records=lambda sizes: sizes.interval_records,
        outputs=lambda sizes: sizes.interval_records // 2,
    ),
    Shape(
        "highest_per_group",
        (PLEDGES, PAYMENTS),
        _HIGHEST_PER_GROUP.format(join="WITHIN 10 SECONDS ON p.id = q.pledge"),
        _HIGHEST_PER_GROUP.format(
            join="ON p.id = q.pledge AND p.ts BETWEEN q.ts - INTERVAL '10' SECOND AND q.ts + INTERVAL '10' SECOND"
        ),
        records=lambda sizes: sizes.interval_records,
        total=lambda sizes: sizes.interval_records // 2,
        key="place",
        changelog=True,
    ),
    Shape(
        "temporal_join",
        (TRADES, RATES),
        f"{_CONVERTED} LEFT JOIN rates AS r ON t.currency = r.currency WHERE t.id >= 0",
        f"{_CONVERTED} LEFT JOIN rates FOR SYSTEM_TIME AS OF t.ts AS r ON t.currency = r.currency WHERE t.id >= 0",
        records=lambda sizes: sizes.join_records,
        outputs=lambda sizes: sizes.join_records,
    ),
    Shape(
        "stream_join",
        (PLEDGES, PAYMENTS),
        _PAID,
        records=lambda sizes: sizes.interval_records,
        outputs=lambda sizes: sizes.interval_records // 2,
        properties={"state_ttl_millis": "3600000"},
    ),
    Shape(
        "changelog_group_by",
        (ACCOUNTS,),
        _PER_BRANCH,
        records=lambda sizes: sizes.changelog_records,
        total=lambda sizes: sizes.changelog_keys,
        key="branch",
        changelog=True,
    ),
    Shape(
        "changelog_join_group_by",
        (ACCOUNTS, BRANCHES),
        _PER_REGION,
        records=lambda sizes: sizes.changelog_records,
        total=lambda sizes: sizes.changelog_keys,
        key="region",
        changelog=True,
    ),
    Shape(
        "top_n",
        (BIDS,),
        _TOP_THREE,
        records=lambda sizes: sizes.rank_records,
        total=_top_three,
        key="auction, place",
        changelog=True,
    ),
    Shape(
        "keep_last",
        (BIDS,),
        _LATEST.format(time="at"),
        _LATEST.format(time="`at`"),
        records=lambda sizes: sizes.rank_records,
        total=lambda sizes: sum(range(sizes.rank_records - sizes.rank_keys, sizes.rank_records)),
        key="auction",
        changelog=True,
    ),
    Shape(
        "match_recognize",
        (QUOTES,),
        _PEAKS.format(time="at"),
        _PEAKS.format(time="ts"),
        records=lambda sizes: sizes.rank_records,
        outputs=_peaks,
    ),
    Shape(
        "over",
        (QUOTES,),
        _RUNNING.format(time="at", frame=_TEN_ROWS),
        _RUNNING.format(time="ts", frame=_TEN_ROWS),
        records=lambda sizes: sizes.rank_records,
        outputs=lambda sizes: sizes.rank_records,
    ),
    Shape(
        "window_max_join",
        (OFFERS,),
        _DEAREST.format(tumble=f"TUMBLE(offers, SIZE {WINDOW_MS // 1000} SECONDS)"),
        _DEAREST.format(
            tumble=f"TABLE(TUMBLE(TABLE offers, DESCRIPTOR(ts), INTERVAL '{WINDOW_MS // 1000}' SECOND))"
        ),
        records=lambda sizes: sizes.window_records,
        outputs=_dearest,
    ),
    Shape(
        "window_hot_items",
        (OFFERS,),
        _HOTTEST.format(
            hop=f"HOP(offers, SIZE {WINDOW_MS // 1000} SECONDS, ADVANCE BY {ADVANCE_MS // 1000} SECONDS)"
        ),
        _HOTTEST.format(
            hop=f"TABLE(HOP(TABLE offers, DESCRIPTOR(ts), INTERVAL '{ADVANCE_MS // 1000}' SECOND, "
            f"INTERVAL '{WINDOW_MS // 1000}' SECOND))"
        ),
        records=lambda sizes: sizes.window_records,
        outputs=_hottest,
        changelog=True,
    ),
)
PEERED = (
    "projection",
    "group_by",
    "tumble",
    "hop",
    "interval_join",
    "highest_per_group",
    "temporal_join",
    "match_recognize",
    "over",
    "window_max_join",
    "window_hot_items",
)
