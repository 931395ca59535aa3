"""Spans of statements and queries. There are none until `use` has set a tracer; then the operator has asked for traces.

Attributes are classes, ids and numbers. The text of a statement and the message of an error are never among them, since both contain
literals of users.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.core.errors import HeadraceError

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext, Tracer

Attributes = Mapping[str, str | int | float]

QUERY_ID = "headrace.query.id"
SQLSTATE = "headrace.sqlstate"
_REQUESTS_MAX = 1024

_tracer: Tracer | None = None
_requests: OrderedDict[str, SpanContext] = OrderedDict()
"""By the id of a query, the statement that has requested its next start."""


def use(tracer: Tracer | None) -> None:
    """Record spans by this tracer from now on; None records none."""
    global _tracer
    _tracer = tracer
    _requests.clear()


@contextmanager
def span(name: str, attributes: Attributes) -> Iterator[None]:
    """Record a block as a span within the present span, with the SQLSTATE of the error that leaves it."""
    if _tracer is None:
        yield
        return
    # An exception's message may contain values of users, so that the span gets none.
    with _tracer.start_as_current_span(
        name, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield
        except BaseException as error:
            _fail(current, error.state.value if isinstance(error, HeadraceError) else None)
            raise


def request_start(query_id: str) -> None:
    """Let the next start of a query be a part of the trace of the present statement."""
    if _tracer is None:
        return
    from opentelemetry.trace import get_current_span

    _requests[query_id] = get_current_span().get_span_context()
    while len(_requests) > _REQUESTS_MAX:
        _requests.popitem(last=False)


class RunSpans:
    """Spans of a run of a query: one of its start, and one of each batch, which links to the start.

    A query runs for months: its batches are traces of their own, since a trace without an end cannot be read.
    """

    def __init__(self, query_id: str, attributes: Attributes) -> None:
        self._query_id = query_id
        self._start: Span | None = None
        if _tracer is not None:
            from opentelemetry.context import Context
            from opentelemetry.trace import NonRecordingSpan, set_span_in_context

            request = _requests.pop(query_id, None)
            context = (
                Context() if request is None else set_span_in_context(NonRecordingSpan(request), Context())
            )
            self._start = _tracer.start_span(
                "query start", context, attributes={QUERY_ID: query_id, **attributes}
            )

    def started(self) -> None:
        """Note that the query runs."""
        if self._start is not None:
            self._start.end()

    def failed(self, sqlstate: str | None) -> None:
        """Note that the run has failed; a run that had started keeps its span."""
        if self._start is not None and self._start.is_recording():
            _fail(self._start, sqlstate)
            self._start.end()

    def batch(self, duration_ms: int, attributes: Attributes) -> None:
        """Record a batch that has just ended."""
        if _tracer is None or self._start is None:
            return
        from opentelemetry.context import Context
        from opentelemetry.trace import Link

        ended = time.time_ns()
        batch = _tracer.start_span(
            "query batch",
            Context(),
            attributes={QUERY_ID: self._query_id, **attributes},
            links=[Link(self._start.get_span_context())],
            start_time=ended - duration_ms * 1_000_000,
        )
        batch.end(ended)


def _fail(failed: Span, sqlstate: str | None) -> None:
    from opentelemetry.trace import StatusCode

    failed.set_status(StatusCode.ERROR)
    if sqlstate is not None:
        failed.set_attribute(SQLSTATE, sqlstate)
