"""Classification of failures for users: SQLSTATE, one sentence, a hint, and the domain (user, external or internal).

The trace stays in the driver's log. No text contains a secret of a store.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark.sql import SparkSession

from headrace.connectors.checkpoint_bucket import SCHEME, Login, driver_login
from headrace.connectors.checkpoint_store import LocalFolder, store_at
from headrace.connectors.schema_registry.options import connection_secrets
from headrace.core.errors import ExternalError, HeadraceError, InternalError, UserError
from headrace.core.names import path_text
from headrace.core.sqlstate import SqlState
from headrace.engine.data_errors import data_error
from headrace.engine.driver.builder import connector_module
from headrace.engine.driver.checkpoint_damage import damage
from headrace.engine.driver.jvm import jvm
from headrace.engine.protocol import StartQuery
from headrace.formats.base import BAD_RECORD
from headrace.planner import physical

_MESSAGE_CHARACTERS = 500
_BAD_RECORD = re.compile(BAD_RECORD + r":([A-Za-z0-9+/=]+):")
_REGISTRY = re.compile(r"HEADRACE_REGISTRY:([A-Za-z0-9+/=]+):")
_UNWRITABLE = re.compile(r"HEADRACE_UNWRITABLE:([A-Za-z0-9+/=]+):")
_FUNCTION = re.compile(r"HEADRACE_FUNCTION:([A-Za-z0-9+/=]+):")
_FRAMES_MAX = 5
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+)((?:\.[A-Z0-9_]+)*)\] ([^\n]*?)(?=\[[A-Z][A-Z0-9_.]+\] |\n|$)")
_ADVICE = re.compile(
    r"\s*(If necessary set|To tolerate|Use ['`]try_|If you (have|need) to|Did you mean|SQLSTATE: ).*"
)
_PLAN = re.compile(
    r"\n=== Streaming Query ===.*?(?=\n(?:JVM stacktrace|Traceback|Caused by|\S+Exception)|\Z)", re.DOTALL
)
_S3A = re.compile(r"\borg\.apache\.hadoop\.fs\.s3a\.|\bsoftware\.amazon\.awssdk\.")
"""Found in the traces of failures of Hadoop's client of S3."""
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large|\bENOSPC\b")
"""Texts of a disk without space, of a user's quota, and of a limit for files (`ulimit -f`)."""
_WORKER = re.compile(r"\(TID \d+\) \((\S+) executor \w+\): ")
"""Start of the error of a task on a cluster, with the name of the worker's machine."""
_NO_SPACE_BYTES = 16 << 20
_WRAPPERS = {
    "STREAM_FAILED",
    "FOREACH_BATCH_USER_FUNCTION_ERROR",
    "TASK_WRITE_FAILED",
    "USER_RAISED_EXCEPTION",
}
_DATA_CONDITIONS = {"DUPLICATED_MAP_KEY", "INVALID_FORMAT", "INCONSISTENT_BEHAVIOR_CROSS_VERSION"}
"""What values cause although Spark's SQLSTATE is not of class 22: a pattern from a column, for example."""
_ARITHMETIC = re.compile(r"java\.lang\.ArithmeticException: ([^\n]*)")
_PATTERN = re.compile(r"java\.util\.regex\.PatternSyntaxException: ([^\n]*)")
"""Compiled code meets these where Spark has no condition for them."""
_TOO_LONG = re.compile(r"\[USER_RAISED_EXCEPTION\] (\w+ would return a text of more than \d+ characters)")
_OWN_ERROR = re.compile(r"\[USER_RAISED_EXCEPTION\] \[(22\d{3})\] ([^\n]*?)(?= SQLSTATE: |\n|$)")
"""Report of an expression of ours that does not accept a value: the SQLSTATE in brackets, then the reason."""
_UNKNOWN_CHANGE = re.compile(
    r"\[USER_RAISED_EXCEPTION\] (FROM_CHANGELOG reads an operation that op_mapping does not name)"
)
_TOO_MANY_MATCHES = re.compile(
    r"MATCH_RECOGNIZE has too many partial matches in one partition: \d+ were open, expected \d+ at most"
)
_OTHER_STATE = re.compile(r"(expected [^\n]*? state of [^\n]*?): the query must start from a new checkpoint")
_ANALYSIS_STATES = {
    "UNRESOLVED_COLUMN": SqlState.UNDEFINED_COLUMN,
    "UNRESOLVED_FIELD": SqlState.UNDEFINED_COLUMN,
    "FIELD_NOT_FOUND": SqlState.UNDEFINED_COLUMN,
    "AMBIGUOUS_REFERENCE": SqlState.AMBIGUOUS_COLUMN,
    "UNRESOLVED_ROUTINE": SqlState.FUNCTION_NOT_FOUND,
    "DATATYPE_MISMATCH": SqlState.DATATYPE_MISMATCH,
    "MISSING_AGGREGATION": SqlState.GROUPING_ERROR,
    "PARSE_SYNTAX_ERROR": SqlState.SYNTAX_ERROR,
}


@dataclass(frozen=True)
class Failure:
    """An ended query's last words. `trace` is for the log only."""

    sqlstate: str
    message: str
    hint: str | None
    domain: Literal["user", "external", "internal"]
    trace: str


UNCLASSIFIED = Failure(
    SqlState.INTERNAL_ERROR.value,
    "the query failed inside Spark",
    "The log of the compute pool contains the details.",
    "internal",
    "",
)
"""The failure of a query if its cause could not be classified."""


def classify(error: BaseException, start: StartQuery) -> Failure:
    """Return the failure that `error` means for the query that `start` began."""
    # Spark puts the query's plan, literals and options included, into the text of its exceptions.
    trace = _PLAN.sub("\n", "".join(traceback.format_exception(error)))
    failure = error if isinstance(error, UserError | ExternalError) else _classified(trace, start, error)
    hidden = _secrets(start)
    return Failure(
        sqlstate=failure.state.value,
        message=_redacted(_shortened(failure.message), hidden),
        hint=_redacted(failure.hint, hidden) if failure.hint else None,
        domain=failure.domain.value,
        trace=_redacted(trace, hidden),
    )


def _classified(text: str, start: StartQuery, error: BaseException) -> HeadraceError:
    if bad := _BAD_RECORD.search(text):
        return _bad_record(bad.group(1))
    if away := _REGISTRY.search(text):
        return _registry_away(away.group(1))
    if unwritable := _UNWRITABLE.search(text):
        return UserError(
            SqlState.INVALID_RECORD,
            f"a row cannot be written: {base64.b64decode(unwritable.group(1)).decode()}",
            hint="Exclude such rows with WHERE, or change the value or the type of the sink's column.",
        )
    if failed := _FUNCTION.search(text):
        return _function_failed(failed.group(1))
    if _DISK_FULL.search(text):
        return _full_disk(text, start)
    if began_slowly(text):
        return slow_begin()
    if start.checkpoint.startswith(SCHEME) and _S3A.search(text):
        return _bucket_failed(start)
    if isinstance(error, HeadraceError):
        return error
    if too_many := _TOO_MANY_MATCHES.search(text):
        return UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            too_many[0],
            hint="Limit the length of a match with WITHIN, use reluctant quantifiers, or conditions that exclude each other.",
        )
    if state := _OTHER_STATE.search(text):
        return UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the query cannot continue from its checkpoint: {state[1]}",
            hint="TERMINATE it and create it again: it then starts at the starting positions of its sources.",
        )
    for name in {step.connector for step in start.plan.steps if isinstance(step, physical.StoreStep)}:
        classified: HeadraceError | None = connector_module(name).classify(text)
        if classified is not None:
            return _with_entities(classified, start)
    if (known := spark_error(text)) is not None:
        return known
    checkpoint = store_at(start.checkpoint)
    damaged = (
        damage(checkpoint.path, text) if start.checkpoint and isinstance(checkpoint, LocalFolder) else None
    )
    return damaged or InternalError(UNCLASSIFIED.message, hint=UNCLASSIFIED.hint)


def _bucket_failed(start: StartQuery) -> ExternalError:
    return ExternalError(
        SqlState.REMOTE_UNAVAILABLE,
        f"the query's checkpoint in {start.checkpoint} cannot be read or written",
        hint="Check that the S3 service answers, and that the server's key may still use the bucket: the query continues by itself.",
    )


def _function_failed(facts: str) -> UserError:
    """Return the error of a failed call. The place of the row's record comes first: long messages are shortened."""
    signature, place, message, trace, *_ = [*base64.b64decode(facts).decode(errors="replace").split("\0"), ""]
    frames = "".join(f"; {line}" for line in trace.splitlines()[:_FRAMES_MAX])
    return UserError(
        SqlState.FUNCTION_FAILED,
        f"the function {signature} failed{f' at {place}' if place else ''}: {message}{frames}",
        hint="Correct the function or exclude such rows with WHERE, then RESTART the query. For a new query, "
        "'source.function.error.handling' = NULL returns NULL for such rows, and DEAD_LETTER keeps them in a topic.",
    )


def began_slowly(text: str) -> bool:
    """True if Spark gave up waiting for the Python process that reads a source, because of the machine's load."""
    return "Python worker failed to connect back" in text


def slow_begin() -> ExternalError:
    """Return the text for a source whose Python process does not start; Spark does not report the reason."""
    return ExternalError(
        SqlState.CONFIGURATION_LIMIT_EXCEEDED,
        "the Python process that reads the query's source has not started in the ten seconds that Spark waits for it",
        hint="Either the machine is too busy, or the process exits at its start: see the compute pool's log. "
        "Run fewer queries on the machine, or add cores. A continuous query restarts automatically.",
    )


def _full_disk(text: str, start: StartQuery) -> ExternalError:
    """Return the error of a full disk: the query is retried for ever, since it continues once there is space."""
    if start.plan.target.is_cluster and (worker := _WORKER.search(text)):
        return ExternalError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"no space is left on a disk that the worker at {worker[1]} uses",
            hint="Free space for its scratch files, its work folder and the checkpoints: the query continues by itself.",
        )
    return ExternalError(
        SqlState.CONFIGURATION_LIMIT_EXCEEDED,
        f"no space is left on the server's disk: that of {_full_folder(text, start)}",
        hint="Free space on it: the query continues by itself.",
    )


def _full_folder(text: str, start: StartQuery) -> str:
    """Return the folder without space: that of the views or the checkpoints if the text or their disk shows it, else the scratch files'."""
    if "views.duckdb" in text:
        return "views.duckdb in the data directory"
    checkpoints = Path(start.checkpoint).parent if start.checkpoint else None
    if checkpoints is not None and checkpoints.is_dir():
        full = shutil.disk_usage(checkpoints).free < _NO_SPACE_BYTES
        if full or str(checkpoints) in text:
            return (
                "checkpoints/ in the data directory"
                if checkpoints.name == "checkpoints"
                else str(checkpoints)
            )
    return "the compute pool's scratch files, work/ in the data directory"


def _with_entities(error: HeadraceError, start: StartQuery) -> HeadraceError:
    """Return the error with the query's entities: a client that misses an entity within a query does not name it."""
    entities = list(
        dict.fromkeys(
            path_text(step.entity) for step in start.plan.steps if isinstance(step, physical.StoreStep)
        )
    )
    if error.state is not SqlState.ENTITY_NOT_FOUND or any(repr(name) in error.message for name in entities):
        return error
    named = " or ".join(repr(name) for name in entities)
    return UserError(error.state, f"an entity of the query no longer exists: {named}", hint=error.hint)


def spark_error(text: str) -> HeadraceError | None:
    """Classify by Spark's error conditions: class 22 is the data's fault, some conditions of analysis the statement's."""
    for condition, detail, message in _CONDITION.findall(text):
        if condition in _WRAPPERS:
            continue
        message = _ADVICE.sub("", message).strip()
        state = _spark_state(condition + detail)
        if state.startswith("22") or condition in _DATA_CONDITIONS:
            return data_error(state, message)
        if condition in _ANALYSIS_STATES:
            return UserError(_ANALYSIS_STATES[condition], message)
    if own := _OWN_ERROR.search(text):
        return data_error(own[1], own[2])
    if too_long := _TOO_LONG.search(text):
        return UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            too_long[1],
            hint="Leave such rows out with WHERE, or bound the length with LEAST.",
        )
    if unknown := _UNKNOWN_CHANGE.search(text):
        return data_error(SqlState.DATA_EXCEPTION.value, unknown[1])
    overflow = _ARITHMETIC.search(text)
    if overflow:
        return data_error(SqlState.NUMERIC_VALUE_OUT_OF_RANGE.value, overflow[1])
    pattern = _PATTERN.search(text)
    if pattern:
        return data_error(SqlState.DATA_EXCEPTION.value, f"{pattern[1]} of a regular expression")
    return None


def _spark_state(condition: str) -> str:
    """Return the SQLSTATE of a condition in Spark's error catalog; empty for none."""
    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    return str(jvm(session).org.apache.spark.SparkThrowableHelper.getSqlState(condition) or "")


def _bad_record(facts: str) -> UserError:
    record = json.loads(base64.b64decode(facts))
    # What kind of time the record has does not help to find it.
    where = ((name, text) for name, text in record["metadata"].items() if name != "timestamp_type")
    place = ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in where)
    return UserError(
        SqlState.INVALID_RECORD,
        f"cannot read the record at {place}: {record['reason']}",
        hint="'source.deserialization.error.handling' = IGNORE skips such records, DEAD_LETTER also keeps them in a topic.",
    )


def _registry_away(facts: str) -> ExternalError:
    failure = json.loads(base64.b64decode(facts))
    return ExternalError(
        SqlState.REMOTE_UNAVAILABLE,
        f"the schema registry {failure['registry']} does not answer: {failure['reason']}",
        hint=(
            "The query continues by itself when the registry answers. DESCRIBE SCHEMA_REGISTRY shows its "
            "address."
        ),
    )


def _secrets(start: StartQuery) -> list[str]:
    secrets = {text for settings in start.registries.values() for text in connection_secrets(settings)}
    for step in start.plan.steps:
        if isinstance(step, physical.StoreStep) and step.store in start.stores:
            secrets.update(connector_module(step.connector).secrets(start.stores[step.store]))
    # The worker of a source has it among its options.
    if start.checkpoint.startswith(SCHEME) and (key := driver_login().secret) is not None:
        secrets.add(key)
    if (key := Login.of(start.bucket).secret) is not None:
        secrets.add(key)
    return sorted(secrets, key=len, reverse=True)


def _redacted(text: str, hidden: list[str]) -> str:
    for secret in hidden:
        text = text.replace(secret, "****")
    return re.sub(r'(password\s*=\s*)("(?:[^"\\]|\\.)*"|\S+)', r"\1****", text, flags=re.IGNORECASE)


def _shortened(message: str) -> str:
    line = message.strip().splitlines()[0] if message.strip() else "no reason was reported"
    return line if len(line) <= _MESSAGE_CHARACTERS else line[:_MESSAGE_CHARACTERS] + "…"
