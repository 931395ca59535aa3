"""COPY: the file of a function source or a descriptor source, back to who asks. Grammar: dialect section 21, whose form is not known."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier
from headrace.sql.ast import Statement, quoted_text
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar


@dataclass(frozen=True)
class CopySource(Statement):
    """`COPY kind name TO '[@]path'`; `kind` is FUNCTION_SOURCE or DESCRIPTOR_SOURCE, and `path` is on the client's machine."""

    kind: str
    name: Identifier
    path: str

    def sql(self) -> str:
        return f"COPY {self.kind} {self.name} TO {quoted_text(self.path)}"


@grammar("COPY FUNCTION_SOURCE", "COPY DESCRIPTOR_SOURCE")
def copy_source(cursor: Cursor) -> CopySource:
    kind = cursor.tokens[cursor.index - 1].text.upper()
    name = cursor.identifier(f"the name of the {kind.lower().replace('_', ' ')}")
    cursor.expect("TO", hint="Specify the target file: TO 'file'.")
    path = cursor.string("the path of a file, in single quotes").removeprefix("@")
    if not path:
        raise cursor.error_at("expected the path of a file, found an empty one")
    return CopySource(*cursor.origin, kind, name, path)
