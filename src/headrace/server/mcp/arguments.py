"""Arguments of tools: their JSON schema, and their check."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from headrace.core.sqlstate import SqlState
from headrace.server.mcp.answers import refused

ArgumentsT = TypeVar("ArgumentsT", bound="Arguments")


class Arguments(BaseModel):
    """Arguments of a tool; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")


def schema_of(model: type[Arguments]) -> dict[str, Any]:
    """Return the JSON schema of arguments without the titles and the names of classes, which describe nothing."""
    schema = model.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        part.pop("description", None)
        part.pop("title", None)
        for field in part["properties"].values():
            field.pop("title", None)
    return schema


def read_arguments(model: type[ArgumentsT], arguments: dict[str, Any] | None) -> ArgumentsT:
    """Return the arguments of a call. Raises RefusedError."""
    try:
        return model.model_validate(arguments or {})
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
            for item in error.errors(include_input=False, include_url=False, include_context=False)
        )
        raise refused(
            SqlState.INVALID_PARAMETER,
            f"the arguments are not valid: {problems}",
            "See the tool's input schema.",
        ) from None
