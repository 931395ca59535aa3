"""Shapes of the relations of `pg_catalog` and `information_schema`: names and types of their columns, as PostgreSQL 16 has them.

`scripts/make_postgres_shapes.py` writes the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow

PG_CATALOG, INFORMATION_SCHEMA = "pg_catalog", "information_schema"
TYPE_NAMES = "_type_names"
"""A relation of ours: the names of types that `format_type` returns."""
_NUMBERS = {"int2": "int16", "int4": "int32", "int8": "int64", "float4": "float32", "float8": "float64"}
_UNSIGNED = frozenset({"oid", "xid", "cid"})
_VECTORS = {"int2vector": "int2", "oidvector": "oid"}
_TEXTS = frozenset({"name", "char"})


@dataclass(frozen=True, eq=False)
class Shape:
    """A relation of the catalog: schema, name, OID, and the type of each column."""

    schema: str
    name: str
    oid: int
    columns: Mapping[str, str]

    @property
    def table(self) -> str:
        """The name of its table in the queries of the workers."""
        return f"{self.schema}__{self.name}"

    def filled(self, rows: Iterable[Mapping[str, object]]) -> pyarrow.Table:
        """Return a table of rows; a column that a row does not have gets the default value of its type."""
        import pyarrow

        kept = list(rows)
        arrays = [
            pyarrow.array([row.get(name, self._default(kind)) for row in kept], _arrow(kind))
            for name, kind in self.columns.items()
        ]
        return pyarrow.Table.from_arrays(arrays, names=list(self.columns))

    def _default(self, kind: str) -> object:
        if self.schema == INFORMATION_SCHEMA:
            return None
        if kind == "bool":
            return False
        if kind in _NUMBERS or kind in _UNSIGNED:
            return 0
        return "" if kind in _TEXTS else "-" if kind == "regproc" else None


@cache
def shapes() -> Mapping[tuple[str, str], Shape]:
    """Return the shapes by schema and name."""
    known = {(PG_CATALOG, TYPE_NAMES): Shape(PG_CATALOG, TYPE_NAMES, 0, {"oid": "oid", "name": "text"})}
    for line in (Path(__file__).parent / "shapes.txt").read_text(encoding="utf-8").splitlines():
        name, oid, *columns = line.split(" ")
        schema, _, relation = name.partition(".")
        known[schema, relation] = Shape(
            schema, relation, int(oid), dict(column.split(":", 1) for column in columns)
        )
    return known


def _arrow(kind: str) -> pyarrow.DataType:
    import pyarrow

    if kind in _VECTORS or kind.startswith("_"):
        return pyarrow.list_(_arrow(_VECTORS.get(kind, kind[1:])))
    if kind == "bool":
        return pyarrow.bool_()
    if kind in _NUMBERS:
        return getattr(pyarrow, _NUMBERS[kind])()
    if kind in _UNSIGNED:
        return pyarrow.uint32()
    if kind == "cardinal_number":
        return pyarrow.int32()
    if kind in ("timestamptz", "time_stamp"):
        return pyarrow.timestamp("us")
    return pyarrow.string()
