"""The settings of the server as a system relation."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import SecretStr

from headrace.catalog.access import Privilege
from headrace.core.schema import Column
from headrace.core.settings import Settings
from headrace.core.types import BOOLEAN, VARCHAR
from headrace.statements.base import Execution
from headrace.statements.system.relation import Rows, always, system_relation


@system_relation(
    "settings",
    always("name"),
    Column("value", VARCHAR),
    Column("default_value", VARCHAR),
    always("is_set", BOOLEAN),
    always("description"),
    key=("name",),
    doc="The settings of the server, by the names of their environment variables; requires READ_AUDIT. `value` is `****` for a secret, "
    "and NULL for a setting without a value. `is_set`: the operator has set it. A change requires a restart of the server.",
    needs=Privilege.READ_AUDIT,
)
def settings(run: Execution) -> Rows:
    given = run.services.settings
    for name, field in Settings.model_fields.items():
        default = None if field.default_factory else field.default
        yield (
            f"HEADRACE_{name.upper()}",
            _text(getattr(given, name)),
            _text(default),
            name in given.model_fields_set,
            field.description or "",
        )


def _text(value: object) -> str | None:
    """Return a value as it is written in the environment; None for one that is not there."""
    if value is None or value == ():
        return None
    if isinstance(value, SecretStr):
        return "****"
    return (
        ",".join(map(str, value))
        if isinstance(value, Iterable) and not isinstance(value, str)
        else str(value)
    )
