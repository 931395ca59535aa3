"""Function sources, whose files are in a separate table, and functions, each from one source."""

from __future__ import annotations

from dataclasses import replace

from headrace.catalog.kinds.spec import Definition, KindSpec, Stored
from headrace.catalog.objects import FunctionKind, FunctionSource, Language, UserFunction
from headrace.core.signature import Signature
from headrace.core.sqlstate import SqlState
from headrace.core.types import parse_type


def _read_source(stored: Stored) -> FunctionSource:
    definition = stored.definition
    return FunctionSource(
        name=stored.name,
        owner=stored.owner,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        digest=definition["digest"],
        size=definition["size"],
        classes=definition["classes"],
        description=definition["description"],
        library=definition["library"],
        language=Language(definition["language"]),
        id=stored.id,
    )


FUNCTION_SOURCE = KindSpec(
    kind="function_source",
    value=FunctionSource,
    path=lambda source: (source.name,),
    write=lambda source: {
        "digest": source.digest,
        "size": source.size,
        "classes": source.classes,
        "description": source.description,
        "library": source.library,
        "language": source.language.value,
    },
    read=_read_source,
    duplicate=SqlState.DUPLICATE_FUNCTION_SOURCE,
    missing=SqlState.FUNCTION_SOURCE_NOT_FOUND,
)


def _write(function: UserFunction) -> Definition:
    return {
        "parameters": [{"name": name, "type": str(kind)} for name, kind in function.parameters],
        "returns": str(function.returns),
        "source": function.source,
        "class": function.class_name,
        "egress": list(function.egress),
        "kind": function.kind.value,
        "repeatable": function.repeatable,
        "language": function.language.value,
        "code": function.code,
        "vectorized": function.vectorized,
    }


def _read(stored: Stored) -> UserFunction:
    definition = stored.definition
    parameters = tuple((item["name"], parse_type(item["type"])) for item in definition["parameters"])
    types = Signature("f", types=tuple(kind for _, kind in parameters))
    name = stored.name.removesuffix(str(types)[1:])
    return UserFunction(
        name=name[1:-1].replace('""', '"') if name.startswith('"') else name,
        parameters=parameters,
        returns=parse_type(definition["returns"]),
        source=definition["source"],
        class_name=definition["class"],
        owner=stored.owner,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        egress=tuple(definition["egress"]),
        kind=FunctionKind(definition["kind"]),
        repeatable=definition["repeatable"],
        language=Language(definition["language"]),
        code=definition["code"],
        vectorized=definition["vectorized"],
        id=stored.id,
    )


def _renamed(function: UserFunction, kind: str, old: str, new: str) -> UserFunction:
    if kind == FUNCTION_SOURCE.kind and function.source == old:
        return replace(function, source=new)
    return function


FUNCTION = KindSpec(
    kind="function",
    value=UserFunction,
    path=lambda function: (str(function.signature),),
    write=_write,
    read=_read,
    duplicate=SqlState.DUPLICATE_FUNCTION,
    missing=SqlState.FUNCTION_NOT_FOUND,
    uses=lambda function: [(FUNCTION_SOURCE.kind, (function.source,))] if function.source is not None else [],
    renamed=_renamed,
    printed=str,
)
"""What a function is called in the catalog is its signature, `name(TYPE, …)`, as texts write it."""
