"""The driver half of the Kinesis store type. `connectors.streaming` describes the contract of each function.

boto3 is imported in functions: every driver loads this module, and few drivers use Kinesis.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.connectors.carried_errors import carried
from headrace.connectors.kinesis.failures import classified
from headrace.connectors.kinesis.options import PROPERTIES
from headrace.connectors.streaming import SinkRequest, SourceRequest
from headrace.core.errors import HeadraceError, UserError
from headrace.core.names import EntityPath
from headrace.core.properties import secret_values
from headrace.core.sqlstate import SqlState

__all__ = ["CLASSES", "NOISY_LOGGERS", "classify", "identify", "probe", "secrets", "sink", "source", "splits"]

CLASSES: tuple[str, ...] = ()
NOISY_LOGGERS: tuple[str, ...] = ()


def splits(request: SourceRequest) -> dict[str, list[int]]:
    """Raises UserError 3D007 for a missing stream, ExternalError 57015 where Kinesis does not answer."""
    from headrace.connectors.kinesis.reader import Stream

    name = request.entity[0]
    with classified(request.properties, name):
        return {name: [shard.number for shard in Stream(request.properties, name).shards()]}


def source(session: SparkSession, request: SourceRequest) -> DataFrame:
    """Return a stream's records; "latest" is the moment of this call. Its shards may be split and merged."""
    from headrace.connectors.kinesis.reader import BEGINNING, Stream, at_time

    name = request.entity[0]
    with classified(request.properties, name):
        # Finds a stream that is missing, too.
        began = Stream(request.properties, name).now()
    if request.starting_position == "earliest":
        began = BEGINNING
    elif request.starting_position == "timestamp":
        # No record has a time in the future, and Kinesis refuses such a time.
        began = at_time(min(request.starting_timestamp_ms or 0, int(began.split()[1])))
    format_name, options = _data_source(
        session,
        {
            "entity": name,
            "properties": dict(request.properties),
            "began": began,
            "records_per_batch": request.records_per_batch,
        },
    )
    records = session.readStream.format(format_name).options(**options).load()
    no_headers = "CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers"
    return records.selectExpr("*", *([no_headers] if request.headers else []))


def sink(records: DataFrame, request: SinkRequest) -> DataStreamWriter:
    """Return a writer of records (key, value) into a stream."""
    from headrace.connectors.kinesis.reader import Stream

    name = request.entity[0]
    with classified(request.properties, name):
        Stream(request.properties, name).now()
    format_name, options = _data_source(
        records.sparkSession, {"entity": name, "properties": dict(request.properties)}
    )
    # A writer looks for its format in the session that is active in this thread, which is not always that of its rows.
    session: Any = records.sparkSession
    session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
    return records.select("key", "value").writeStream.format(format_name).options(**options)


def probe(properties: Mapping[str, str]) -> Callable[[], None]:
    """Request the name of one stream."""
    from headrace.connectors.kinesis.client import kinesis

    with classified(properties):
        client = kinesis(properties)

    def ask() -> None:
        with classified(properties):
            client.list_streams(Limit=1)

    return ask


def identify(properties: Mapping[str, str]) -> Callable[[EntityPath], dict[str, str]]:
    """Return a function that identifies a stream by its creation time."""
    from headrace.connectors.kinesis.client import address, kinesis

    with classified(properties):
        client = kinesis(properties)

    def ask(entity: EntityPath) -> dict[str, str]:
        [name] = entity
        try:
            with classified(properties, name):
                answer = client.describe_stream_summary(**address(properties, name))
        except UserError as error:
            if error.state is not SqlState.ENTITY_NOT_FOUND:
                raise
            return {}
        created: datetime = answer["StreamDescriptionSummary"]["StreamCreationTimestamp"]
        return {name: str(created.timestamp())}

    return ask


def classify(text: str) -> HeadraceError | None:
    """Return the classified error in a text of Spark's. Errors of boto3 are classified where they are raised."""
    return carried(text)


def secrets(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return values to mask in logs and errors."""
    return secret_values(properties, PROPERTIES)


def _data_source(session: SparkSession, request: Mapping[str, object]) -> tuple[str, dict[str, str]]:
    from headrace.connectors.kinesis.spark.stream import REQUEST

    return _registered(session), {REQUEST: json.dumps(request)}


@cache
def _registered(session: SparkSession) -> str:
    from headrace.connectors.kinesis.spark.stream import KinesisStream

    session.dataSource.register(KinesisStream)
    return KinesisStream.name()
