"""The protocol of a store type, small on purpose: its size is the size of every later integration.

A store type is a folder `connectors/<type>/` with `options.py` (typed options), `admin.py` (the control-plane half, class
`<Type>Connector`) and `spark.py` (the driver half: functions `source` and `sink`; the only part that may import pyspark,
looked up by name at run time).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from headrace.core.properties import PropertyReader, PropertySpec, Specs
from headrace.core.resultset import Cell

Guarantee = Literal["at_least_once", "exactly_once"]


@dataclass(frozen=True)
class Capabilities:
    """What a store type can do; the planner refuses the rest and names the missing flag."""

    streaming_source: bool = False
    append_sink: bool = False
    upsert_sink: bool = False
    exactly_once_sink: bool = False
    real_time: bool = False
    creates_entities: bool = False
    prints: bool = False


@dataclass(frozen=True)
class EntityDescription:
    """An entity as its store describes it. `layout` are the numbers by which it is divided, called as in `Connector.layout`."""

    name: str
    layout: Mapping[str, int] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PrintedRecord:
    """One record of an entity as text (undecodable bytes as base64)."""

    key: Cell
    value: Cell
    metadata: str


class Connector(Protocol):
    """The control-plane half of a store type: `type` is the word of CREATE STORE in lower case, `label` what clients are shown.
    `properties` are all that it adds to the dialect, of every scope; `layout` those that say how an entity is divided;
    `dead_letter_properties` make one for records that cannot be read.

    Methods block (callers use a thread) except `print_entity`. All raise `UserError` or `ExternalError`, classified, with a hint.
    """

    type: ClassVar[str]
    label: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    properties: ClassVar[Specs]
    layout: ClassVar[Mapping[str, PropertySpec[int]]]
    dead_letter_properties: ClassVar[Mapping[str, str]]

    def store_properties(self, reader: PropertyReader) -> dict[str, str]:
        """Takes those of a store: canonical texts; raises UserError 3D008 / 3D021 at the property."""
        ...

    def test(self, properties: Mapping[str, str]) -> None:
        """Called before a store is created; raises ExternalError 57015 when it does not answer."""
        ...

    def list_entities(self, properties: Mapping[str, str]) -> list[str]:
        """Names of the entities that a user may see."""
        ...

    def describe_entity(self, properties: Mapping[str, str], entity: str) -> EntityDescription:
        """Raises UserError 3D007 when there is none."""
        ...

    def create_entity(
        self, properties: Mapping[str, str], entity: str, reader: PropertyReader
    ) -> EntityDescription:
        """Takes what says how; raises UserError 42710 when it exists, 3D008 at a bad property."""
        ...

    def drop_entity(self, properties: Mapping[str, str], entity: str) -> None:
        """Raises UserError 3D007 when there is none."""
        ...

    def insert(self, properties: Mapping[str, str], entity: str, *, key: bytes | None, value: bytes) -> None:
        """Append one record and wait until the store has it."""
        ...

    async def print_entity(
        self, properties: Mapping[str, str], entity: str, *, from_beginning: bool
    ) -> AsyncIterator[PrintedRecord]:
        """Records as they come, from the beginning or from the moment of this call, until the iterator is closed."""
        ...

    def source_options(self, reader: PropertyReader) -> dict[str, str]:
        """Takes what a source passes on to its client."""
        ...

    def sink_options(self, reader: PropertyReader) -> dict[str, str]:
        """Takes what a sink passes on to its client."""
        ...
