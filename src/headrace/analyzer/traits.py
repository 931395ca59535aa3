"""Traits of a logical node's rows: how they change, what identifies them, and their time.

One function a node kind, in `DERIVED`. Checks, the choice of change modes and EXPLAIN read traits, and nothing else decides from
the kinds of nodes what a row means. The words are Flink's: +I -U +U -D.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from headrace.analyzer.expressions import Call, Cast, ColumnReference, Expression
from headrace.analyzer.logical import (
    RANK_SOURCE,
    WINDOW_END,
    WINDOW_START,
    Aggregate,
    Change,
    Filter,
    FromChangelog,
    IntervalJoin,
    Item,
    JoinKind,
    Limit,
    LogicalNode,
    LookupJoin,
    MatchRecognize,
    OverAggregate,
    Project,
    RegularJoin,
    Scan,
    SetOperation,
    SingleRow,
    SnapshotJoin,
    Sort,
    Subquery,
    TemporalJoin,
    TimeWindow,
    ToChangelog,
    TopN,
    Union,
    Unnest,
    WindowExtremes,
    WindowKind,
    walk,
)
from headrace.analyzer.typing import is_injective_cast
from headrace.catalog.objects import RelationKind
from headrace.core.errors import InternalError
from headrace.core.internal_columns import is_internal

INSERTS = frozenset({Change.INSERT})
UPDATES = frozenset({Change.INSERT, Change.UPDATE_BEFORE, Change.UPDATE_AFTER})
ALL_CHANGES = frozenset(Change)

Place = tuple[str, str]
"""A column: the alias of its source, empty for an output column, and its name."""


@dataclass(frozen=True)
class Traits:
    """Traits of a node's rows.

    `key` are columns of which no two rows have the same values at a time; empty: there is one row at most; None: none are known.
    `timed` rows have an event time that the watermark follows. `window` is the column that holds the end of each row's time
    window: once the watermark has passed it, no more rows of that window come.
    """

    changes: frozenset[Change] = INSERTS
    key: tuple[Place, ...] | None = None
    timed: bool = False
    window: Place | None = None
    window_start: Place | None = None

    @property
    def insert_only(self) -> bool:
        """True when a row stays for ever."""
        return self.changes == INSERTS

    @property
    def windows(self) -> frozenset[Place]:
        """The bounds of the time window that are columns."""
        return frozenset(place for place in (self.window, self.window_start) if place is not None)

    def moved(self, names: Callable[[Place], Place | None]) -> Traits:
        """Return the traits under other names; columns without a name are dropped. A window's end identifies the window."""
        ended = self.window is not None and names(self.window) is not None
        known: tuple[Place, ...] | None = None
        if self.key is not None:
            remaining = [
                place for place in self.key if not (ended and place == self.window_start and not names(place))
            ]
            named = [place for place in map(names, remaining) if place is not None]
            known = tuple(named) if len(named) == len(remaining) else None
        return Traits(
            self.changes,
            known,
            self.timed,
            names(self.window) if self.window else None,
            names(self.window_start) if self.window_start else None,
        )


_DERIVED = "_traits"
"""Where a node, which never changes, remembers them."""


def traits(node: LogicalNode) -> Traits:
    """Return the traits of a node, from those of its inputs. They are cached, since a node and all nodes above it request them several
    times."""
    known = vars(node).get(_DERIVED)
    if isinstance(known, Traits):
        return known
    derive = next((derived for kind, derived in DERIVED.items() if isinstance(node, kind)), None)
    if derive is None:
        raise InternalError(f"no traits for {type(node).__name__}")
    value = derive(node)
    vars(node)[_DERIVED] = value
    return value


def _scan(node: Scan) -> Traits:
    relation = node.relation
    if relation.kind is not RelationKind.CHANGELOG:
        return Traits(timed=True)
    key = tuple((node.alias, name) for name in relation.schema.primary_key)
    return Traits(ALL_CHANGES if relation.format.upsert else UPDATES, key, timed=True)


def _single_row(_node: SingleRow) -> Traits:
    return Traits(key=())


def _subquery(node: Subquery) -> Traits:
    return traits(node.input).moved(lambda place: (node.alias, place[1]))


def _time_window(node: TimeWindow) -> Traits:
    below = traits(node.input)
    alias = node.sources[0].alias
    bounds = node.kind is not WindowKind.SESSION
    key = below.key
    if node.kind is not WindowKind.TUMBLE and key is not None:
        key = (*key, (alias, WINDOW_END))
    return Traits(
        below.changes,
        key,
        below.timed,
        (alias, WINDOW_END) if bounds else None,
        (alias, WINDOW_START) if bounds else None,
    )


def _to_changelog(_node: ToChangelog) -> Traits:
    """Return the traits of changes. A deletion has the event time of its row, not its own: so they have none."""
    return Traits()


def _from_changelog(node: FromChangelog) -> Traits:
    key = tuple((node.sources[0].alias, name) for name in node.key) or None
    return Traits(ALL_CHANGES, key, traits(node.input).timed)


def _unnest(node: Unnest) -> Traits:
    """Return the traits of the elements. An element is identified by its row and its place, and the only one by its row."""
    if isinstance(node.input, SingleRow):
        return Traits()
    below = traits(node.input)
    place = ((node.alias, node.ordinality.name),) if node.ordinality is not None else None
    single = (
        isinstance(node.array, Call)
        and node.array.function.name == "ARRAY"
        and len(node.array.arguments) == 1
    )
    key = (*below.key, *(place or ())) if below.key is not None and (place is not None or single) else None
    return Traits(below.changes, key, below.timed, below.window, below.window_start)


def _filter(node: Filter) -> Traits:
    """Return the traits of filtered rows: an updated row may stop matching and is deleted then."""
    below = traits(node.input)
    changes = below.changes if below.insert_only else ALL_CHANGES
    return Traits(changes, below.key, below.timed, below.window, below.window_start)


def _interval_join(node: IntervalJoin) -> Traits:
    return Traits(timed=traits(node.left).timed and traits(node.right).timed)


def _temporal_join(node: TemporalJoin) -> Traits:
    return traits(node.left)


def _lookup_join(node: LookupJoin) -> Traits:
    """Return the traits of the left rows. Their key identifies the output rows if the table has at most one row for each."""
    left = traits(node.left)
    key = node.right.relation.schema.primary_key
    single = bool(key) and set(key) <= set(node.right_keys)
    return left if single else replace(left, key=None)


def _regular_join(node: RegularJoin) -> Traits:
    left, right = traits(node.left), traits(node.right)
    windowed = joins_windows(node)
    inserts = left.insert_only and right.insert_only
    stays = inserts and (windowed or node.kind in (JoinKind.INNER, JoinKind.CROSS, JoinKind.SEMI))
    one_side = node.kind in (JoinKind.SEMI, JoinKind.ANTI)
    key = left.key if one_side else _joined_key(node, left, right)
    windowed_side = left if left.window is not None else right
    return Traits(
        INSERTS if stays else ALL_CHANGES,
        key,
        left.timed and right.timed and stays,
        windowed_side.window if windowed else None,
        windowed_side.window_start if windowed else None,
    )


def joins_windows(node: RegularJoin) -> bool:
    """True if both sides are rows of time windows and join only within a window: then the state ends with the window."""
    left, right = traits(node.left), traits(node.right)
    pairs = {
        (place_of(ours), place_of(theirs))
        for ours, theirs in zip(node.left_keys, node.right_keys, strict=True)
    }
    return (
        left.insert_only
        and right.insert_only
        and left.window is not None
        and right.window is not None
        and (left.window, right.window) in pairs
    )


_LEFT_STAYS = (JoinKind.INNER, JoinKind.LEFT)


def _joined_key(node: RegularJoin, left: Traits, right: Traits) -> tuple[Place, ...] | None:
    """Return both keys; of a side that is joined by its whole key there is one row at most, so that the other's key is enough.

    A column that no text can name, as LATERAL joins by, is the left column that it equals.
    """
    if left.key is None or right.key is None:
        return None
    by_left = set(left.key) <= {place_of(key) for key in node.left_keys}
    by_right = set(right.key) <= {place_of(key) for key in node.right_keys}
    if by_right and node.kind in _LEFT_STAYS:
        return left.key
    pairs = zip(node.left_keys, node.right_keys, strict=True)
    equal = {place_of(theirs): place_of(ours) for ours, theirs in pairs} if node.kind in _LEFT_STAYS else {}
    ours = {
        place: left_place for place in right.key if is_internal(place[1]) and (left_place := equal.get(place))
    }
    if by_left and node.kind in (JoinKind.INNER, JoinKind.RIGHT):
        return tuple(dict.fromkeys(ours.get(place, place) for place in right.key))
    return (*left.key, *(place for place in right.key if place not in ours))


def _snapshot(_node: SnapshotJoin | SetOperation) -> Traits:
    """Return the traits of a snapshot; nothing reads them."""
    return Traits()


def _project(node: Project) -> Traits:
    return traits(node.input).moved(lambda place: output_place(place, node.items))


def output_place(place: Place, items: Iterable[Item]) -> Place | None:
    """Return the output column that has the values of `place`, or others that are as different."""
    return next(
        (("", item.name) for item in items if place in map(place_of, _as_different(item.expression))), None
    )


def _as_different(expression: Expression) -> Iterator[Expression]:
    """Yield the expression, and what it is a CAST of as far as that has different values where the expression has."""
    yield expression
    while isinstance(expression, Cast) and is_injective_cast(expression.operand.type, expression.type):
        expression = expression.operand
        yield expression


def place_of(expression: Expression) -> Place | None:
    """Return the column that an expression is; None when it is more than a column."""
    return (expression.source, expression.column) if isinstance(expression, ColumnReference) else None


def _aggregate(node: Aggregate) -> Traits:
    below = traits(node.input)
    bounds = window_groups(node)
    if bounds:
        named = {place[1]: output_place(place, node.items) for place in bounds}
        end, start = (
            named.get(_name(below.window, WINDOW_END)),
            named.get(_name(below.window_start, WINDOW_START)),
        )
        return Traits(INSERTS, _grouped_key(node, bounds), timed=True, window=end, window_start=start)
    distinct = below.insert_only and not _computes(node)
    groups = {place_of(key) for key in node.group_by}
    of_windows = not below.insert_only and below.window in groups
    key = _grouped_key(node, below.windows & groups if of_windows else frozenset())
    return Traits(INSERTS if distinct else ALL_CHANGES, key)


def window_groups(node: Aggregate) -> frozenset[Place]:
    """Return the groups that are bounds of a time window. With the window's end among them each group's result is final and comes once."""
    below = traits(node.input)
    if not below.insert_only or not below.timed:
        return frozenset()
    end, bounds = below.window, below.windows
    if (session := session_of(node)) is not None:
        alias = session.sources[0].alias
        end = (alias, WINDOW_END)
        bounds = frozenset({(alias, WINDOW_START), end})
    groups = {place for place in map(place_of, node.group_by) if place is not None}
    return bounds & groups if end in groups else frozenset()


def session_of(node: Aggregate) -> TimeWindow | None:
    """Return the session windows that an aggregate makes of its input."""
    below = node.input
    while isinstance(below, Filter):
        below = below.input
    return below if isinstance(below, TimeWindow) and below.kind is WindowKind.SESSION else None


def _starts_tell(node: LogicalNode) -> bool:
    while isinstance(node, Filter):
        node = node.input
    return isinstance(node, TimeWindow) and node.kind is not WindowKind.CUMULATE


def _name(place: Place | None, otherwise: str) -> str:
    return place[1] if place is not None else otherwise


def _computes(node: Aggregate) -> bool:
    return node.having is not None or any(item.expression not in node.group_by for item in node.items)


def _grouped_key(node: Aggregate, bounds: frozenset[Place]) -> tuple[Place, ...] | None:
    """Return the groups' columns; unknown unless all are selected. One bound of a window is enough for the window."""
    names: list[Place] = []
    selected_bound = not bounds
    # Windows of CUMULATE begin together.
    below = traits(node.input)
    telling = bounds if _starts_tell(node.input) else bounds & {below.window}
    for key in node.group_by:
        place = next((("", item.name) for item in node.items if key in _as_different(item.expression)), None)
        bound = place_of(key) in bounds
        if place is None and not bound:
            return None
        tells = place_of(key) in telling
        selected_bound = selected_bound or (tells and place is not None)
        if place is not None and place not in names:
            names.append(place)
    return tuple(names) if selected_bound else None


def _union(node: Union) -> Traits:
    below = [traits(branch) for branch in node.branches]
    inserts = all(branch.insert_only for branch in below)
    timed = all(branch.timed for branch in below)
    if node.distinct:
        return Traits(INSERTS if inserts else ALL_CHANGES, tuple(("", name) for name in node.schema.names))
    return Traits(INSERTS if inserts else ALL_CHANGES, None, timed)


def _top_n(node: TopN) -> Traits:
    below = traits(node.input)
    partition = tuple(place for place in map(place_of, node.partition_by) if place is not None)
    plain = len(partition) == len(node.partition_by)
    key = below.key
    if plain and node.limit == 1 and partition and not node.has_ties:
        key = partition
    elif plain and node.rank is not None and not node.has_ties:
        key = (*partition, (RANK_SOURCE, node.rank))
    if ranks_windows(node):
        return Traits(INSERTS, key, below.timed, below.window, below.window_start)
    # Without an order, rows are first as they come, and stay it.
    return Traits(INSERTS if below.insert_only and not node.order_by else ALL_CHANGES, key)


def ranks_windows(node: TopN) -> bool:
    """True if each partition belongs to a single time window: its order is final when the watermark has passed the window's end."""
    below = traits(node.input)
    return (
        below.insert_only
        and below.timed
        and below.window is not None
        and below.window in map(place_of, node.partition_by)
    )


def closes_at_once(node: LogicalNode) -> bool:
    """True if all rows of a time window come together: they are the groups of the window, which come when the watermark has passed it."""
    while isinstance(node, Subquery | Project | Filter):
        node = node.input
    return isinstance(node, Aggregate) and bool(window_groups(node))


def _window_extremes(node: WindowExtremes) -> Traits:
    """Return the traits of the rows; the bounds of the window are columns of the left side, as of the join that the node is."""
    below = traits(node.input)

    def bound(place: Place | None) -> Place | None:
        if not node.leads:
            return place
        return next(
            ((node.alias, item.name) for item in node.items if place_of(item.expression) == place), None
        )

    return Traits(INSERTS, below.key, below.timed, bound(below.window), bound(below.window_start))


def _match_recognize(node: MatchRecognize) -> Traits:
    """Return the traits of matches: a match stays, and has the time of a row of its; WITHIN bounds how long it waits."""
    return Traits(timed=not node.waits or node.within_ms is not None)


def _below(node: Sort | Limit | OverAggregate) -> Traits:
    return traits(node.input)


DERIVED: dict[type[LogicalNode], Callable[[Any], Traits]] = {
    Scan: _scan,
    SingleRow: _single_row,
    Subquery: _subquery,
    TimeWindow: _time_window,
    ToChangelog: _to_changelog,
    FromChangelog: _from_changelog,
    Unnest: _unnest,
    Filter: _filter,
    IntervalJoin: _interval_join,
    TemporalJoin: _temporal_join,
    LookupJoin: _lookup_join,
    RegularJoin: _regular_join,
    SnapshotJoin: _snapshot,
    SetOperation: _snapshot,
    Project: _project,
    Aggregate: _aggregate,
    TopN: _top_n,
    WindowExtremes: _window_extremes,
    MatchRecognize: _match_recognize,
    OverAggregate: _below,
    Union: _union,
    Sort: _below,
    Limit: _below,
}
"""Node kind to the function that derives its traits."""


RowWindow = TimeWindow | MatchRecognize | OverAggregate
"""Nodes for which a row comes too late when the watermark has passed it, or its window."""


def row_windows(root: LogicalNode) -> Iterator[tuple[int, RowWindow]]:
    """Yield the relations whose rows go into a window or a pattern one by one, by the identity of their scans, with that: what the
    watermark has passed comes too late for it. No row is too late for a window of rows that change."""
    for node in walk(root):
        if isinstance(node, RowWindow) and getattr(node, "time", None) is None:
            below = node.input
            while isinstance(below, Filter | Project | Subquery | Unnest | OverAggregate):
                below = below.input
            if isinstance(below, Scan):
                yield id(below), node
