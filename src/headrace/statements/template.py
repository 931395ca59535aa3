"""GENERATE TEMPLATE: a statement to fill in, generated from its declared properties, or its syntax if it has no properties."""

from __future__ import annotations

import inspect
import re
import typing

from headrace.analyzer.properties import DIALECT
from headrace.connectors.registry import connector, type_names
from headrace.connectors.schema_registry.options import PROPERTIES as REGISTRY
from headrace.core.errors import UserError
from headrace.core.names import Identifier
from headrace.core.properties import PropertySpec, Scope, Specs, of_scope
from headrace.core.resultset import result
from headrace.core.sqlstate import SqlState
from headrace.core.types import VARCHAR
from headrace.sql.grammar import GRAMMAR
from headrace.sql.statements.generate import GenerateTemplate
from headrace.statements import (
    api_token,
    compute_pool,
    descriptor_source,
    function,
    function_source,
    organization,
    secret,
    user,
)
from headrace.statements.base import Execution, Outcome, handles, nothing

_OF_STORES = {
    "CREATE STORE": ("CREATE STORE name", Scope.STORE),
    "UPDATE STORE": ("UPDATE STORE name", Scope.STORE),
    "CREATE ENTITY": ("CREATE ENTITY name", Scope.ENTITY),
    "CREATE STREAM": ("CREATE STREAM name (\n  column_name VARCHAR\n)", Scope.RELATION),
    "CREATE CHANGELOG": (
        "CREATE CHANGELOG name (\n  column_name VARCHAR,\n  PRIMARY KEY (column_name)\n)",
        Scope.RELATION,
    ),
    "CREATE TABLE": ("CREATE TABLE name (\n  column_name VARCHAR\n)", Scope.RELATION),
}
"""What a store type has properties for: how it begins, and where they stand."""
_OF_OTHERS: dict[str, tuple[str, Specs]] = {
    "CREATE SCHEMA_REGISTRY": ("CREATE SCHEMA_REGISTRY name", REGISTRY),
    "CREATE SECRET": ("CREATE SECRET name", secret.PROPERTIES),
    "CREATE API_TOKEN": ("CREATE API_TOKEN name", api_token.PROPERTIES),
    "CREATE COMPUTE_POOL": ("CREATE COMPUTE_POOL name", compute_pool.PROPERTIES),
    "CREATE DESCRIPTOR_SOURCE": ("CREATE DESCRIPTOR_SOURCE name", descriptor_source.PROPERTIES),
    "CREATE FUNCTION_SOURCE": ("CREATE FUNCTION_SOURCE name", function_source.PROPERTIES),
    "CREATE FUNCTION": (
        "CREATE FUNCTION name(parameter VARCHAR) RETURNS VARCHAR LANGUAGE JAVA",
        function.PROPERTIES,
    ),
    "INVITE USER": ("INVITE USER 'e-mail'", user.PROPERTIES),
    "UPDATE ORGANIZATION": ("UPDATE ORGANIZATION name", organization.PROPERTIES),
}


@handles(GenerateTemplate, requires=nothing)
async def generate_template(statement: GenerateTemplate, _run: Execution) -> Outcome:
    """Return one row: required properties to be filled in, optional ones commented out with their defaults."""
    words = " ".join(statement.words)
    if words in _OF_STORES:
        begin, scope = _OF_STORES[words]
        text = _filled(begin, _of_store_type(statement, scope), store=statement.type)
    elif statement.type is not None:
        raise UserError(
            SqlState.SYNTAX_ERROR,
            f"{words} has no store type",
            hint=f"GENERATE TEMPLATE FOR {words}; or of {', '.join(_OF_STORES)}.",
            span=statement.type.span,
        )
    elif words in _OF_OTHERS:
        text = _filled(*_OF_OTHERS[words])
    else:
        text = _syntax(statement.words)
    return Outcome(result([("Template", VARCHAR)], [(text,)]))


def _of_store_type(statement: GenerateTemplate, scope: Scope) -> Specs:
    """Return the properties of the dialect and of the store type. Raises UserError 3D021 without a type, 3D008 for an unknown type."""
    own = of_scope(DIALECT, scope)
    if statement.type is not None:
        return (*own, *of_scope(connector(statement.type.name, span=statement.type.span).properties, scope))
    if scope is Scope.STORE:
        raise UserError(
            SqlState.MISSING_PARAMETER,
            "the properties of a store are those of its type",
            hint=f"Name one: {type_names()}.",
            span=statement.span,
        )
    return own


def _filled(begin: str, specs: Specs, *, store: Identifier | None = None) -> str:
    given = _needed(specs)
    others = [spec for spec in specs if spec not in given and "ignored" not in spec.doc and spec.name]
    lines = [f"  {_entry(spec, store)}{',' if spec is not given[-1] else ''}" for spec in given]
    lines += [f"  -- {',' if given else ''} {_entry(spec, store)}: {_description(spec)}" for spec in others]
    return f"{begin} WITH (\n" + "\n".join(lines) + "\n);"


def _needed(specs: Specs) -> list[PropertySpec[typing.Any]]:
    """Return the required properties. A property that is required together with another one follows it."""
    needed: list[PropertySpec[typing.Any]] = []
    before = None
    for spec in specs:
        if spec.default.startswith("needed") and (not _is_needed_with(spec) or before in needed):
            needed.append(spec)
        before = spec
    return needed


def _is_needed_with(spec: PropertySpec[typing.Any]) -> bool:
    return spec.default.startswith("needed with ")


def _entry(spec: PropertySpec[typing.Any], store: Identifier | None) -> str:
    value = store.name.upper() if spec.name == "type" and store is not None else "'…'"
    return f"'{spec.name}{'…' if spec.open else ''}' = {value}"


def _description(spec: PropertySpec[typing.Any]) -> str:
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", spec.doc).replace("`", "").replace("\n", " ")
    if _is_needed_with(spec):
        return f"{text} ({spec.default})"
    return f"{text} (without it: {spec.default.replace('`', '')})" if spec.default else text


def _syntax(words: tuple[str, ...]) -> str:
    """Return the syntax of the statements that begin with the words."""
    returned = typing.get_type_hints(GRAMMAR[words]).get("return")
    kinds = typing.get_args(returned) or (returned,)
    matches = [re.search(r"`([^`]+)`", inspect.getdoc(kind) or "") for kind in kinds]
    return "\n".join(f"{match[1]};" for match in matches if match) or f"{' '.join(words)} …;"
