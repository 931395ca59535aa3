"""Translation of a query of PostgreSQL's catalog to DuckDB's SQL, over a tree of sqlglot.

What passes is listed: one query, tables of the catalog, known functions and types. Anything else raises UserError 0A000.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState
from headrace.server.postgres import types
from headrace.server.postgres.catalog.functions import KNOWN, RECORD_SETS, RENAMED, template
from headrace.server.postgres.catalog.rows import Snapshot
from headrace.server.postgres.catalog.shapes import INFORMATION_SCHEMA, PG_CATALOG, Shape, shapes
from headrace.server.postgres.parameters import Bound
from headrace.server.postgres.types import Value
from headrace.sql.splitting import PIECE

TEXT_LENGTH_MAX = 64 * 1024
DEPTH_MAX = 60
"""Brackets inside each other; the parser needs several calls for each."""

_QUALIFIERS = (PG_CATALOG, INFORMATION_SCHEMA)
_REGISTERED = frozenset(
    {"regclass", "regtype", "regnamespace", "regrole", "regproc", "regprocedure", "regoper", "regoperator"}
)
_INNER = frozenset({"format_type", "to_regclass", "to_regtype"})
"""Functions that templates of others call."""

_CHANGING = (
    exp.DML,
    exp.DDL,
    exp.Drop,
    exp.Alter,
    exp.Into,
    exp.Command,
    exp.Copy,
    exp.Merge,
    exp.Set,
    exp.Use,
    exp.Pragma,
)
_LABELS = frozenset({"select", "insert", "update", "delete"})
_FORMATS = {"%s": "", "%I": "quote_ident", "%L": "quote_literal"}
_UNNAMED = "?column?"
_NUMBER_LENGTH = 6
_DUCKDB_TYPES = {
    **dict.fromkeys(("oid", "xid", "cid"), "UINTEGER"),
    **dict.fromkeys(
        ("name", "text", "varchar", "char", "bpchar", "character", "cstring", "citext", "aclitem"), "VARCHAR"
    ),
    **dict.fromkeys(
        ("sql_identifier", "character_data", "yes_or_no", "regproc", "regprocedure", "json", "unknown"),
        "VARCHAR",
    ),
    "cardinal_number": "INTEGER",
    "int2": "SMALLINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "int4": "INTEGER",
    "integer": "INTEGER",
    "int8": "BIGINT",
    "bigint": "BIGINT",
    "bool": "BOOLEAN",
    "boolean": "BOOLEAN",
    "float4": "FLOAT",
    "real": "FLOAT",
    "float": "DOUBLE",
    "float8": "DOUBLE",
    "double": "DOUBLE",
    "double precision": "DOUBLE",
    "numeric": "DECIMAL(38, 6)",
    "decimal": "DECIMAL(38, 6)",
    "date": "DATE",
    **dict.fromkeys(
        ("timestamp", "timestamptz", "timestamp with time zone", "timestamp without time zone"), "TIMESTAMP"
    ),
    "int2vector": "SMALLINT[]",
    "oidvector": "UINTEGER[]",
}
_BOUND_TYPES = {
    types.INT2: "SMALLINT",
    types.INT4: "INTEGER",
    types.INT8: "BIGINT",
    types.OID: "UINTEGER",
    types.BOOL: "BOOLEAN",
    types.FLOAT4: "FLOAT",
    types.FLOAT8: "DOUBLE",
    types.DATES: "DATE",
    **dict.fromkeys((types.TIMESTAMP, types.TIMESTAMPTZ), "TIMESTAMP"),
    **dict.fromkeys((types.TEXT, types.VARCHAR, types.NAME, types.BPCHAR), "VARCHAR"),
    types.KINDS[types.TEXT].array: "VARCHAR[]",
    types.KINDS[types.VARCHAR].array: "VARCHAR[]",
    types.KINDS[types.INT8].array: "BIGINT[]",
    types.KINDS[types.INT4].array: "INTEGER[]",
    types.KINDS[types.OID].array: "UINTEGER[]",
}
_OPERATORS = {"~": exp.RegexpLike, "~*": exp.RegexpILike, "=": exp.EQ, "<>": exp.NEQ, "~~": exp.Like}
_NAMES_OF = {
    "regclass": "(SELECT min(c.relname) FROM pg_catalog.pg_class AS c WHERE c.oid = $1)",
    "regnamespace": "(SELECT min(n.nspname) FROM pg_catalog.pg_namespace AS n WHERE n.oid = $1)",
    "regrole": "(SELECT min(r.rolname) FROM pg_catalog.pg_roles AS r WHERE r.oid = $1)",
    "regtype": "format_type($1, -1)",
}
_OIDS_OF = {
    "regclass": "to_regclass($1)",
    "regtype": "to_regtype($1)",
    "regnamespace": "(SELECT min(n.oid) FROM pg_catalog.pg_namespace AS n WHERE n.nspname = $1)",
    "regrole": "(SELECT min(r.oid) FROM pg_catalog.pg_roles AS r WHERE r.rolname = $1)",
}


@dataclass(frozen=True)
class Translated:
    """A query in DuckDB's SQL, and the relations that it reads."""

    sql: str
    reads: frozenset[Shape]


def translated(text: str, values: Sequence[Bound], objects: Snapshot) -> Translated:
    """Translate a query, with its parameters' values as literals. Raises UserError 42601 for a text that cannot be read, and 0A000."""
    if len(text) > TEXT_LENGTH_MAX or _depth(text) > DEPTH_MAX:
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"a query of PostgreSQL's catalog has at most {TEXT_LENGTH_MAX} characters and {DEPTH_MAX} nested brackets",
        )
    try:
        parsed = sqlglot.parse(_quoted_labels(text), read="postgres")
        query = parsed[0] if len(parsed) == 1 else None
        if not isinstance(query, exp.Query):
            raise _unsupported("other than a SELECT")
        return _Translation(objects, values).run(query)
    except SqlglotError as error:
        line = str(error).partition("\n")[0].partition(". Line")[0]
        raise UserError(
            SqlState.SYNTAX_ERROR, f"this query of PostgreSQL's catalog cannot be read: {line[:200]}"
        ) from None
    except RecursionError:
        raise _unsupported("nested as deeply as this") from None


class _Translation:
    """State of a translation. Nodes are replaced from the leaves up, so that what replaces a node is not translated again."""

    def __init__(self, objects: Snapshot, values: Sequence[Bound]) -> None:
        self._objects = objects
        self._values = values
        self._reads: set[Shape] = set()

    def run(self, query: exp.Query) -> Translated:
        """Translate a query."""
        if query.find(*_CHANGING) is not None:
            raise _unsupported("that changes something")
        local = {with_.alias.lower() for with_ in query.find_all(exp.CTE)}
        _name_columns(query)
        root: exp.Expr = query
        for node in reversed([*query.walk()]):
            replacement = self._replacement(node)
            if replacement is node:
                continue
            if node is root:
                root = replacement
            else:
                node.replace(replacement)
        for table in [*root.find_all(exp.Table)]:
            self._table(table, local)
        return Translated(root.sql(dialect="duckdb", comments=False), frozenset(self._reads))

    def _replacement(self, node: exp.Expr) -> exp.Expr:
        match node:
            case exp.Parameter() | exp.Placeholder():
                return self._parameter(node)
            case exp.Collate():
                return _expression(node.this)
            case exp.Dot() if node.this.name in _QUALIFIERS:
                return _expression(node.expression)
            case exp.ByteString():
                return exp.Literal.string(node.name)
            case exp.Cast():
                return self._cast(node)
            case exp.Operator():
                return _operator(node)
            case exp.NEQ() if node.expression.meta.get("function") == "all":
                return exp.Not(
                    this=exp.Anonymous(this="list_contains", expressions=[node.expression, node.this])
                )
            case exp.Div() if _is_integral(node.this) and _is_integral(node.expression):
                return exp.IntDiv(this=node.this, expression=node.expression)
            case exp.Func():
                return self._function(node)
            case exp.Column():
                return self._column(node)
        return node

    def _parameter(self, node: exp.Expr) -> exp.Expr:
        number = int(node.name) if node.name.isdigit() and len(node.name) < _NUMBER_LENGTH else 0
        if not 0 < number <= len(self._values):
            raise UserError(SqlState.MISSING_PARAMETER, f"there is no parameter ${node.name[:20]}")
        bound = self._values[number - 1]
        kind = _BOUND_TYPES.get(bound.oid)
        value = _literal(bound.value)
        return _cast_to(value, kind) if kind is not None else value

    def _column(self, node: exp.Column) -> exp.Expr:
        if not node.table and node.name.lower() == "user" and not node.this.args.get("quoted"):
            return exp.Literal.string(self._objects.user)
        node.set("db", None)
        node.set("catalog", None)
        return node

    def _cast(self, node: exp.Cast) -> exp.Expr:
        name, is_array = _type_name(node.args["to"])
        operand = node.this
        if is_array:
            if isinstance(operand, exp.Literal) and operand.is_string:
                operand = _array(operand.name)
            return _cast_to(operand, _duckdb_type(name) + "[]")
        if name in _REGISTERED:
            return self._registered(operand, name)
        if name == "oid" and "oid" in operand.meta:
            return _expression(operand.meta["oid"])
        return _cast_to(operand, _duckdb_type(name))

    def _registered(self, operand: exp.Expr, name: str) -> exp.Expr:
        """Cast a text to the OID of what it names, and an OID to the name."""
        if isinstance(operand, exp.Literal):
            if not operand.is_string or operand.name.isdigit():
                return _cast_to(operand, "UINTEGER")
            text = exp.Literal.string(operand.name.removeprefix("pg_catalog."))
            return self._filled(_OIDS_OF[name], [text]) if name in _OIDS_OF else exp.Null()
        if operand.meta.get("function") == "format" and name in _OIDS_OF:
            return self._filled(_OIDS_OF[name], [operand])
        if name not in _NAMES_OF:
            return _cast_to(operand, "VARCHAR")
        named = self._filled(_NAMES_OF[name], [operand])
        named.meta["oid"] = operand.copy()
        return named

    def _function(self, node: exp.Func) -> exp.Expr:
        if type(node).__name__ in KNOWN:
            return node
        name = node.name.lower() if isinstance(node, exp.Anonymous) else node.sql_names()[0].lower()
        if name in RENAMED:
            return exp.Anonymous(this=RENAMED[name], expressions=_arguments(node))
        if name == "format":
            return self._formatted(_arguments(node))
        expression = template(name, self._objects)
        if expression is None:
            raise _unsupported(f"with the function {name[:60]}")
        filled = self._filled(expression, _arguments(node))
        filled.meta["function"] = name
        return filled

    def _formatted(self, arguments: Sequence[exp.Expr]) -> exp.Expr:
        """Return `format('%I.%I', …)` as a concatenation."""
        pattern, *rest = arguments
        values = iter(rest)
        parts: list[exp.Expr] = [exp.Literal.string("")]
        for piece in re.split("(%[sIL%])", pattern.name if isinstance(pattern, exp.Literal) else "%?"):
            if "%" not in piece or piece == "%%":
                parts.append(exp.Literal.string(piece.replace("%%", "%")))
                continue
            value = next(values, None)
            if piece not in _FORMATS or value is None:
                raise _unsupported("with this format")
            quoting = template(_FORMATS[piece], self._objects) or "$1"
            parts.append(self._filled(quoting, [_cast_to(value, "VARCHAR")]))
        joined = exp.Concat(expressions=parts, safe=False, coalesce=False)
        joined.meta["function"] = "format"
        return joined

    def _filled(self, expression: str, arguments: Sequence[exp.Expr]) -> exp.Expr:
        """Return a template with its arguments; a missing one is NULL."""
        root: exp.Expr = exp.Paren(this=_parsed_template(expression).copy())
        for node in reversed([*root.walk()]):
            if isinstance(node, exp.Parameter | exp.Placeholder):
                place = int(node.name) - 1
                node.replace(
                    exp.Paren(this=arguments[place].copy()) if place < len(arguments) else exp.Null()
                )
            elif isinstance(node, exp.Anonymous) and node.name.lower() in _INNER:
                node.replace(self._filled(template(node.name.lower(), self._objects) or "", node.expressions))
        return root

    def _table(self, table: exp.Table, local: set[str]) -> None:
        if not isinstance(table.this, exp.Identifier):
            table.replace(_of_function(table))
            return
        schema, name = table.db.lower(), table.name.lower()
        if not schema and name in local:
            return
        shape = shapes().get((schema or PG_CATALOG, name))
        if shape is None:
            raise UserError(
                SqlState.RELATION_NOT_FOUND,
                f"the relation {table.name[:100]} is not in PostgreSQL's catalog",
                hint="A query reads either PostgreSQL's catalog or relations of Headrace.",
            )
        self._reads.add(shape)
        table.set("this", exp.to_identifier(shape.table, quoted=True))
        table.set("db", None)
        table.set("catalog", None)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name)))


@lru_cache(maxsize=256)
def _parsed_template(expression: str) -> exp.Expr:
    return sqlglot.parse_one(expression, read="duckdb")


def _quoted_labels(text: str) -> str:
    """Return `text` with quotes around labels that are keywords (`… AS select`), which PostgreSQL accepts and sqlglot does not."""
    parts: list[str] = []
    before = ""
    for match in PIECE.finditer(text):
        piece = match.group()
        if match.lastgroup not in ("space", "comment"):
            if before == "as" and piece.lower() in _LABELS:
                piece = f'"{piece.lower()}"'
            before = piece.lower()
        parts.append(piece)
    return "".join(parts)


def _is_integral(part: exp.Expr) -> bool:
    """True for a whole number, and for a cast to an integral type."""
    if isinstance(part, exp.Literal):
        return part.is_int
    return isinstance(part, exp.Cast) and part.to.this in exp.DataType.INTEGER_TYPES


def _expression(part: exp.Expr) -> exp.Expr:
    """Return a part of a node, which sqlglot does not type."""
    return part


def _arguments(node: exp.Func) -> list[exp.Expr]:
    parts = node.expressions if isinstance(node, exp.Anonymous) else node.args.values()
    flat = [item for part in parts for item in (part if isinstance(part, list) else [part])]
    return [part for part in flat if isinstance(part, exp.Expr)]


def _of_function(table: exp.Table) -> exp.Expr:
    """Return a function in FROM as a subquery; PostgreSQL names its column like its alias."""
    function = table.this
    alias = table.args.get("alias")
    name = function.meta.get("function", "")
    if alias is None:
        alias = exp.TableAlias(this=exp.to_identifier(name or "function"))
    if not alias.args.get("columns") and name not in RECORD_SETS:
        alias.set("columns", [alias.this.copy()])
    # WITH ORDINALITY adds a column, here of functions without rows only.
    ordinality = [exp.Literal.number(0)] * max(len(alias.args.get("columns") or ()) - 1, 0)
    expressions = [function] if name in RECORD_SETS else [function, *ordinality]
    return exp.Subquery(this=exp.Select(expressions=expressions), alias=alias, joins=table.args.get("joins"))


def _operator(node: exp.Operator) -> exp.Expr:
    symbol = str(node.args["operator"]).rpartition(".")[2]
    if symbol == "!~":
        return exp.Not(this=exp.RegexpLike(this=node.this, expression=node.expression))
    if symbol not in _OPERATORS:
        raise _unsupported(f"with the operator {symbol[:10]}")
    return _OPERATORS[symbol](this=node.this, expression=node.expression)


def _name_columns(query: exp.Query) -> None:
    """Name the columns of the result as PostgreSQL does where the query does not."""
    first: exp.Expr = query
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    for item in [*first.expressions] if isinstance(first, exp.Select) else []:
        is_named = isinstance(item, exp.Alias | exp.Star) or (
            isinstance(item, exp.Column) and item.name != "user"
        )
        if not is_named and not (isinstance(item, exp.Dot) and not isinstance(item.expression, exp.Func)):
            item.replace(exp.alias_(item.copy(), _column_name(item), quoted=True))


def _column_name(item: exp.Expr) -> str:
    match item:
        case exp.Dot():
            return _column_name(item.expression)
        case exp.Paren():
            return _column_name(item.this)
        case exp.Column():
            return item.name
        case exp.Cast():
            inner = _column_name(item.this)
            return inner if inner != _UNNAMED else _type_name(item.args["to"])[0]
        case exp.Anonymous():
            return item.name.lower()
        case exp.Func() if not isinstance(item, exp.Connector):
            name = item.sql_names()[0].lower()
            return "version" if name == "current_version" else name
    return _UNNAMED


def _type_name(kind: exp.Expr) -> tuple[str, bool]:
    """Return the name of a type in lower case without its schema and length, and whether it is an array of that."""
    if isinstance(kind, exp.DataType) and kind.this == exp.DType.ARRAY:
        return _type_name(kind.expressions[0])[0] if kind.expressions else "text", True
    if isinstance(kind, exp.DataType) and kind.this == exp.DType.USERDEFINED:
        named = kind.args.get("kind")
        text = named if isinstance(named, str) else named.name if isinstance(named, exp.Expr) else ""
    else:
        text = str(getattr(kind.this, "value", kind.this))
    return text.rpartition(".")[2].strip('"').lower(), False


def _duckdb_type(name: str) -> str:
    if name not in _DUCKDB_TYPES:
        raise _unsupported(f"with the type {name[:60]}")
    return _DUCKDB_TYPES[name]


def _cast_to(operand: exp.Expr, kind: str) -> exp.Expr:
    return exp.Cast(this=operand.copy(), to=exp.DataType.build(kind, dialect="duckdb"))


def _literal(value: Value) -> exp.Expr:
    if isinstance(value, list):
        return exp.Array(expressions=[_literal(item) for item in value])
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, bytes):
        raise _unsupported("with a parameter of type bytea")
    if isinstance(value, int | decimal.Decimal) and value >= 0:
        return exp.Literal.number(format(value, "f") if isinstance(value, decimal.Decimal) else value)
    return exp.Literal.string(str(value))


def _array(text: str) -> exp.Array:
    """Return an array in PostgreSQL's text format as an expression. Raises UserError 22P02."""
    try:
        items = types.array_items(text)
    except (ValueError, IndexError):
        raise UserError(
            SqlState.INVALID_RECORD, f"expected an array such as {{a,b}}, found {text[:60]!r}"
        ) from None
    return exp.Array(expressions=[exp.Null() if item is None else exp.Literal.string(item) for item in items])


def _depth(text: str) -> int:
    """Return how many brackets are open at most; those in strings count too."""
    depth = deepest = 0
    for char in text:
        if char in "([":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")]":
            depth -= 1
    return deepest


def _unsupported(what: str) -> UserError:
    return UserError(
        SqlState.FEATURE_NOT_SUPPORTED,
        f"a query of PostgreSQL's catalog {what} is not supported",
        hint="The system relations in deltastream.sys contain the objects of Headrace.",
    )
