"""Words that options accept; apart from what they choose, so that `headrace version` imports no printers."""

from __future__ import annotations

from enum import StrEnum


class Output(StrEnum):
    """Format of rows."""

    TABLE = "table"
    EXPANDED = "expanded"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    TSV = "tsv"
    MARKDOWN = "markdown"


class OnError(StrEnum):
    """Continuation of a script after a statement that fails."""

    STOP = "stop"
    CONTINUE = "continue"


class Order(StrEnum):
    """Column by which the queries are ordered; the largest value comes first."""

    LAG = "lag"
    INPUT = "input"
    OUTPUT = "output"
    STATE = "state"
    NAME = "name"
