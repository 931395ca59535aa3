"""USER and INVITATION: invite, alter, drop, describe, list, revoke. Grammar: dialect section 5."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot.tokenizer_core import TokenType

from headrace.core.names import Identifier
from headrace.sql.ast import Properties, Statement, quoted_text
from headrace.sql.cursor import Cursor
from headrace.sql.grammar import grammar


@dataclass(frozen=True)
class InviteUser(Statement):
    """`INVITE USER 'e-mail' WITH ('roles' = (role [, …]) [, 'default' = role])`. Users have no upper case."""

    user: Identifier
    properties: Properties

    def sql(self) -> str:
        return f"INVITE USER {quoted_text(self.user.name)}{self.properties.sql()}"


@grammar("INVITE USER")
def invite_user(cursor: Cursor) -> InviteUser:
    user = _user(cursor)
    return InviteUser(*cursor.origin, user, cursor.properties())


@dataclass(frozen=True)
class AlterUser(Statement):
    """`ALTER USER name SET PASSWORD 'password'`."""

    user: Identifier
    password: str = field(repr=False)

    def sql(self) -> str:
        return f"ALTER USER {quoted_text(self.user.name)} SET PASSWORD {quoted_text(self.password)}"


@grammar("ALTER USER")
def alter_user(cursor: Cursor) -> AlterUser:
    user = _user(cursor)
    cursor.expect("SET", "PASSWORD")
    return AlterUser(*cursor.origin, user, cursor.string("the password in single quotes"))


@dataclass(frozen=True)
class DropUser(Statement):
    """`DROP USER name`."""

    name: Identifier

    def sql(self) -> str:
        return f"DROP USER {quoted_text(self.name.name)}"


@grammar("DROP USER")
def drop_user(cursor: Cursor) -> DropUser:
    return DropUser(*cursor.origin, _user(cursor))


@dataclass(frozen=True)
class DescribeUser(Statement):
    """`DESCRIBE USER name`."""

    user: Identifier

    def sql(self) -> str:
        return f"DESCRIBE USER {quoted_text(self.user.name)}"


@grammar("DESCRIBE USER")
def describe_user(cursor: Cursor) -> DescribeUser:
    return DescribeUser(*cursor.origin, _user(cursor))


@dataclass(frozen=True)
class ListUsers(Statement):
    """`LIST USERS`."""

    def sql(self) -> str:
        return "LIST USERS"


@grammar("LIST USERS")
def list_users(cursor: Cursor) -> ListUsers:
    return ListUsers(*cursor.origin)


@dataclass(frozen=True)
class ListInvitations(Statement):
    """`LIST INVITATIONS`."""

    def sql(self) -> str:
        return "LIST INVITATIONS"


@grammar("LIST INVITATIONS")
def list_invitations(cursor: Cursor) -> ListInvitations:
    return ListInvitations(*cursor.origin)


@dataclass(frozen=True)
class RevokeInvitation(Statement):
    """`REVOKE INVITATION id`."""

    invitation: Identifier

    def sql(self) -> str:
        return f"REVOKE INVITATION {quoted_text(self.invitation.name)}"


@grammar("REVOKE INVITATION")
def revoke_invitation(cursor: Cursor) -> RevokeInvitation:
    what = "the id of the invitation"
    if cursor.token is not None and cursor.token.token_type is TokenType.STRING:
        start = cursor.index
        return RevokeInvitation(*cursor.origin, Identifier(cursor.string(what), cursor.span_from(start)))
    return RevokeInvitation(*cursor.origin, cursor.name_or_uuid(what))


def _user(cursor: Cursor) -> Identifier:
    """Parse a name, or an e-mail address in single quotes."""
    what = "the user's name, or e-mail address in single quotes"
    start = cursor.index
    if cursor.token is not None and cursor.token.token_type is TokenType.STRING:
        name = cursor.string(what)
        return Identifier(name.lower(), cursor.span_from(start))
    identifier = cursor.identifier(what)
    return Identifier(identifier.name.lower(), identifier.span)
