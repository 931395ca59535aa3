"""ALERT: create, drop, describe, list."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.names import Identifier, QualifiedName
from headrace.sql.ast import Properties, Statement
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar
from headrace.sql.statements.query import reference_text

_NAME = "the name of the alert"


@dataclass(frozen=True)
class CreateAlert(Statement):
    """`CREATE ALERT [IF NOT EXISTS] name ON { QUERY reference | ORGANIZATION } [WHEN code [, …]] WITH (…)`.

    Without `reference`, the alert is on the organization. `codes` are those of findings; without any, all that warn.
    """

    name: Identifier
    reference: QualifiedName | None
    codes: tuple[Identifier, ...]
    properties: Properties
    if_not_exists: bool = False

    def sql(self) -> str:
        exists = "IF NOT EXISTS " if self.if_not_exists else ""
        on = "ORGANIZATION" if self.reference is None else f"QUERY {reference_text(self.reference)}"
        when = f" WHEN {', '.join(map(str, self.codes))}" if self.codes else ""
        return f"CREATE ALERT {exists}{self.name} ON {on}{when}{self.properties.sql()}"


@grammar("CREATE ALERT")
def create_alert(cursor: Cursor) -> CreateAlert:
    if_not_exists = cursor.if_not_exists()
    name = cursor.identifier(_NAME)
    cursor.expect("ON", hint="CREATE ALERT name ON QUERY id-or-name WHEN errored WITH ('url' = 'https://…');")
    reference = None
    if not cursor.accept("ORGANIZATION"):
        cursor.expect("QUERY", hint="An alert is ON QUERY id-or-name, or ON ORGANIZATION.")
        reference = cursor.query_reference()
    codes = []
    if cursor.accept("WHEN"):
        codes.append(cursor.identifier("the code of a finding"))
        while cursor.accept(","):
            codes.append(cursor.identifier("the code of a finding"))
    properties = cursor.properties()
    if not properties:
        raise cursor.error("WITH ( 'url' = 'https://…' )")
    return CreateAlert(*cursor.origin, name, reference, tuple(codes), properties, if_not_exists)


@dataclass(frozen=True)
class DropAlert(Statement):
    """`DROP ALERT name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DROP ALERT {self.name}"


@grammar("DROP ALERT")
def drop_alert(cursor: Cursor) -> DropAlert:
    return DropAlert(*cursor.origin, cursor.identifier(_NAME))


@dataclass(frozen=True)
class DescribeAlert(Statement):
    """`DESCRIBE ALERT name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DESCRIBE ALERT {self.name}"


@grammar("DESCRIBE ALERT")
def describe_alert(cursor: Cursor) -> DescribeAlert:
    return DescribeAlert(*cursor.origin, cursor.identifier(_NAME))


@dataclass(frozen=True)
class ListAlerts(Statement):
    """`LIST ALERTS`."""

    def sql(self) -> str:
        return "LIST ALERTS"


@grammar("LIST ALERTS")
def list_alerts(cursor: Cursor) -> ListAlerts:
    return ListAlerts(*cursor.origin)
