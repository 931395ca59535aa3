"""A materialized view in a continuous query is replaced by its own query, or refused if the query could not follow it.

The relations are those of `tests/plans/world.py`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace

import pytest

from headrace.analyzer import bind
from headrace.analyzer.logical import RegularJoin, Subquery, TemporalJoin, walk
from headrace.analyzer.views import renamed
from headrace.catalog.objects import Relation, ViewDefinition
from headrace.core.errors import UserError
from headrace.core.names import RelationName
from tests.plans.world import BINDING, MOMENT, WORLD, World, bound, planned, select_of, sink_of, view

EARLIEST = "WITH ('starting.position' = 'earliest')"


@pytest.fixture(autouse=True)
def _world_as_it_was() -> Iterator[None]:
    before = list(WORLD.views)
    yield
    WORLD.views[:] = before


def made(text: str) -> Relation:
    """Create the view of a statement."""
    WORLD.views.append(view(text))
    return WORLD.views[-1]


def views(text: str) -> list[str]:
    """The views that stand in a query's plan as queries, topmost first."""
    nodes = walk(sink_of(text)[0].root)
    return [node.view.name.name for node in nodes if isinstance(node, Subquery) and node.view is not None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT carrier FROM busy", []),
        ("SELECT carrier FROM busy ORDER BY flights LIMIT 3", []),
        ("WITH flights AS (SELECT carrier FROM busy) SELECT carrier FROM flights", []),
        ("WITH a AS (SELECT carrier FROM busy), b AS (SELECT carrier FROM a) SELECT carrier FROM b", []),
        (
            "WITH busy AS (SELECT carrier FROM busy) SELECT b.carrier FROM flights b JOIN busy USING (carrier)",
            ["busy"],
        ),
        ("CREATE CHANGELOG c AS SELECT carrier FROM busy", ["busy"]),
        ("CREATE MATERIALIZED VIEW c AS SELECT carrier FROM busiest", ["busiest", "busy"]),
        ("INSERT INTO totals SELECT carrier, flights FROM busy", ["busy"]),
        ("SELECT f.carrier FROM flights f JOIN busy b ON f.carrier = b.carrier", ["busy"]),
        ("SELECT carrier FROM flights UNION ALL SELECT carrier FROM busy", ["busy"]),
        ("SELECT carrier FROM busy WHERE carrier IN (SELECT carrier FROM flights)", ["busy"]),
        (
            "SELECT carrier FROM flights WHERE NOT EXISTS (SELECT 1 FROM busy b WHERE b.carrier = flights.carrier)",
            ["busy"],
        ),
    ],
)
def test_a_query_that_is_continuous_reads_views_as_their_queries(text: str, expected: list[str]) -> None:
    assert views(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "CREATE CHANGELOG c AS SELECT flights, COUNT(*) AS n, SUM(minutes) AS m FROM {} GROUP BY flights",
        "CREATE CHANGELOG c AS SELECT carrier, flights FROM {} WHERE flights > 2",
        "CREATE MATERIALIZED VIEW c AS SELECT carrier, minutes FROM {}",
        "INSERT INTO totals SELECT carrier, flights FROM {}",
        "CREATE CHANGELOG c AS SELECT a.code, busy.flights FROM airports a LEFT JOIN {} ON a.code = busy.carrier",
        "CREATE CHANGELOG c AS SELECT flights, COUNT(*) AS n FROM arrivals a JOIN {} ON a.carrier = busy.carrier GROUP BY flights",
        "CREATE CHANGELOG c AS SELECT code FROM airports WHERE code IN (SELECT carrier FROM {})",
        "SELECT f.tailnum, flights FROM flights f JOIN {} ON f.carrier = busy.carrier",
    ],
)
def test_a_plan_over_a_view_is_the_plan_over_its_query(text: str) -> None:
    definition = WORLD.views[0].definition
    assert definition is not None
    query = select_of(definition.sql).sql()
    assert planned(text.format("busy")) == planned(text.format(f"({query}) AS busy"))


def test_a_query_names_the_view_and_needs_what_is_inside() -> None:
    plan = bound("SELECT a.code FROM airports a JOIN busiest b ON a.code = b.carrier")
    assert [relation.name.name for relation in plan.named] == ["airports", "busiest"]
    assert [relation.name.name for relation in plan.relations] == ["airports", "busiest", "busy", "flights"]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SELECT v.maker FROM flights f JOIN fleet v ON f.tailnum = v.plane", TemporalJoin),
        ("SELECT v.maker FROM flights f LEFT JOIN fleet v ON v.plane = f.tailnum", TemporalJoin),
        ("SELECT v.maker FROM flights f FULL JOIN fleet v ON f.tailnum = v.plane", RegularJoin),
        ("SELECT f.carrier FROM flights f JOIN fleet v ON f.tailnum = v.maker", RegularJoin),
        ("SELECT b.flights FROM flights f JOIN busy b ON f.carrier = b.carrier", RegularJoin),
        ("SELECT b.flights FROM airports a JOIN busy b ON a.code = b.carrier", RegularJoin),
    ],
)
def test_a_stream_meets_the_version_of_a_view_that_has_the_times_of_a_changelog(
    text: str, kind: type
) -> None:
    joins = [node for node in walk(bound(text).root) if isinstance(node, TemporalJoin | RegularJoin)]
    assert [type(node) for node in joins] == [kind]


def test_records_that_cannot_be_read_are_kept_by_the_view_alone() -> None:
    made(
        "CREATE MATERIALIZED VIEW v AS SELECT carrier FROM flights WITH ('starting.position' = 'earliest', "
        "'source.deserialization.error.handling' = DEAD_LETTER)"
    )
    plan = planned("CREATE STREAM s AS SELECT carrier FROM v")
    assert len(plan.outputs) == 1
    assert [getattr(step, "on_error", "ignore") for step in plan.steps] == ["ignore"] * len(plan.steps)


def test_names_mean_what_they_did_where_the_view_was_made() -> None:
    session = replace(BINDING.session, database="elsewhere", schema="other")
    text = "CREATE CHANGELOG c AS SELECT carrier FROM airline.public.busiest"
    plan = bind(select_of(text), replace(BINDING, session=session), continuous=True)
    assert [str(scan.relation.name) for scan in plan.scans] == ["airline.public.flights"]


REFUSED = [
    (
        "CREATE MATERIALIZED VIEW v AS SELECT carrier FROM flights",
        "",
        "latest position of airline.public.flights",
        "earliest",
    ),
    (
        f"CREATE MATERIALIZED VIEW v WITH ('retention.millis' = 1000) AS SELECT carrier FROM flights {EARLIEST}",
        "",
        "retention.millis",
        "streams",
    ),
    (
        f"CREATE MATERIALIZED VIEW v AS SELECT carrier, COUNT(*) AS n FROM flights {EARLIEST} GROUP BY carrier "
        "QUERY WITH ('state.ttl.millis' = 1000)",
        "",
        "keeps its state for 1000 ms",
        "QUERY WITH ('state.ttl.millis' = 1000)",
    ),
    (
        f"CREATE MATERIALIZED VIEW v AS SELECT carrier, COUNT(*) AS n FROM flights {EARLIEST} GROUP BY carrier "
        "QUERY WITH ('state.ttl.millis' = 1000)",
        " QUERY WITH ('state.ttl.millis' = 2000)",
        "keeps its state for 1000 ms",
        "QUERY WITH ('state.ttl.millis' = 1000)",
    ),
]


@pytest.mark.parametrize(("definition", "more", "reason", "hint"), REFUSED)
def test_a_view_that_cannot_be_followed_is_refused_where_it_is_named(
    definition: str, more: str, reason: str, hint: str
) -> None:
    made(definition)
    _refused(f"CREATE MATERIALIZED VIEW w AS SELECT carrier FROM v{more}", "v", reason, hint)


def test_a_view_with_a_lifetime_is_read_with_the_same() -> None:
    made(REFUSED[-1][0])
    text = "CREATE MATERIALIZED VIEW w AS SELECT carrier FROM v QUERY WITH ('state.ttl.millis' = 1000)"
    assert views(text) == ["v"]


def test_a_view_of_an_earlier_release_is_refused() -> None:
    _refused(
        "CREATE CHANGELOG c AS SELECT carrier FROM delays", "delays", "earlier release", "create it again"
    )


class Later(World):
    """World after the stream `flights` was dropped and created again."""

    def relation(self, name: RelationName, /) -> Relation | None:
        stored = WORLD.relation(name)
        if stored is None or name.name != "flights":
            return stored
        return replace(stored, created_at=MOMENT + datetime.timedelta(seconds=1))


def test_what_was_made_again_since_is_another() -> None:
    text = "CREATE CHANGELOG c AS SELECT carrier FROM busy"
    with pytest.raises(UserError, match=r"reads another airline\.public\.flights"):
        bind(select_of(text), replace(BINDING, catalog=Later()), continuous=True)


def test_what_is_wrong_inside_a_view_is_shown_where_the_view_is_named() -> None:
    text = "CREATE STREAM s AS SELECT * FROM TUMBLE(busy, SIZE 1 MINUTE)"
    _refused(
        text,
        "busy",
        "TUMBLE over the materialized view airline.public.busy requires an event time that is part of the key",
        "Apply the window to the streams",
    )


def test_an_error_inside_names_the_view() -> None:
    good = made(f"CREATE MATERIALIZED VIEW v AS SELECT carrier FROM flights {EARLIEST}")
    definition = good.definition
    assert definition is not None
    broken = replace(definition, sql=definition.sql.replace("carrier", "no_such_column"))
    WORLD.views[-1] = replace(good, definition=broken)
    _refused(
        "CREATE STREAM s AS SELECT carrier FROM v",
        "v",
        "in the query of the materialized view airline.public.v: the column no_such_column does not exist",
        "The columns are flight_time",
    )


def test_a_view_whose_columns_would_be_others_is_refused() -> None:
    good = made(f"CREATE MATERIALIZED VIEW v AS SELECT carrier FROM flights {EARLIEST}")
    definition = good.definition
    assert definition is not None
    WORLD.views[-1] = replace(
        good, definition=replace(definition, sql=definition.sql.replace("carrier", "tailnum"))
    )
    _refused("CREATE STREAM s AS SELECT carrier FROM v", "v", "returned other columns", "create it again")


def test_a_view_takes_no_source_properties() -> None:
    _refused(
        f"CREATE CHANGELOG c AS SELECT carrier FROM busy {EARLIEST}",
        "'starting.position' = 'earliest'",
        "accepts no source properties",
        "in the query of the materialized view",
    )


def _refused(text: str, place: str, reason: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        planned(text)
    error = caught.value
    assert reason in error.message
    assert hint in (error.hint or "")
    assert error.span is not None
    assert text[error.span.start : error.span.end] == place


@pytest.mark.parametrize(
    ("old", "new", "query"),
    [
        ("d.s.a", "d.s.B", 'SELECT a.n, a.n FROM d.s."B" AS a JOIN TUMBLE(e.s.w, SIZE 1 SECOND) USING (n)'),
        ("d.s", "d.t", "SELECT a.n, d.t.a.n FROM d.t.a JOIN TUMBLE(e.s.w, SIZE 1 SECOND) USING (n)"),
        ("d", "e 1", 'SELECT a.n, "e 1".s.a.n FROM "e 1".s.a JOIN TUMBLE(e.s.w, SIZE 1 SECOND) USING (n)'),
        ("e.s.w", "e.s.v", "SELECT a.n, s.a.n FROM a JOIN TUMBLE(e.s.v, SIZE 1 SECOND) AS w USING (n)"),
        ("d.t.a", "d.t.b", "SELECT a.n, s.a.n FROM a JOIN TUMBLE(e.s.w, SIZE 1 SECOND) USING (n)"),
    ],
)
def test_the_names_in_a_view_follow_what_they_mean(old: str, new: str, query: str) -> None:
    text = "CREATE MATERIALIZED VIEW v AS {}"
    given = "SELECT a.n, s.a.n FROM a JOIN TUMBLE(e.s.w, SIZE 1 SECOND) USING (n)"
    after = renamed(ViewDefinition(text.format(given), "d", "s"), old.split("."), new.split("."))
    assert after.sql == text.format(query)
    expected = {"d": ("e 1", "s"), "d.s": ("d", "t")}
    assert (after.database, after.schema) == expected.get(old, ("d", "s"))
