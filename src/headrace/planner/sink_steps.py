"""Steps that write the rows of a query into its sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.core.internal_columns import KEY_BYTES
from headrace.planner import physical
from headrace.planner.sinks import EntitySink, TableSink, ViewSink, physical_columns


def sink_steps(
    sink: EntitySink | TableSink | ViewSink,
    identifier: str,
    output: str,
    name: Callable[[str], str],
    *,
    deleted: str | None = None,
    event_time: str | None = None,
    sign: str | None = None,
) -> Iterator[physical.Step]:
    """Yield the steps from the rows of the step `output` to the one that writes them, which is called `identifier`.

    `name` returns an unused id for a step. `deleted`, `event_time` and `sign` name the internal columns that the rows have.
    """
    match sink:
        case EntitySink():
            layout = sink.format
            records = physical.EncodeRows(
                id=name("records"),
                input=output,
                columns=physical_columns(sink.schema),
                value=layout.value,
                key=layout.key,
                key_columns=list(layout.key_columns),
                key_expression=KEY_BYTES if sink.carried_key else None,
                deleted=deleted,
                timestamp=layout.timestamp if deleted else None,
                event_time=event_time,
            )
            yield records
            yield physical.WriteEntity(
                id=identifier,
                input=records.id,
                store=sink.store,
                connector=sink.connector,
                entity=sink.entity,
                guarantee=sink.guarantee,
                options=dict(sink.options),
            )
        case TableSink():
            yield physical.WriteRows(
                id=identifier,
                input=output,
                store=sink.store,
                connector=sink.connector,
                entity=sink.entity,
                columns=physical_columns(sink.schema),
                key_columns=list(sink.key_columns),
                deleted=deleted,
                guarantee=sink.guarantee,
                options=dict(sink.options),
            )
        case ViewSink():
            yield physical.WriteView(
                id=identifier,
                input=output,
                view=sink.view,
                columns=sink.columns,
                key_columns=list(sink.key_columns),
                deleted=deleted,
                sign=sign,
            )
