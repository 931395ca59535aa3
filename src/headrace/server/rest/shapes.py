"""The shapes of answers, for the OpenAPI document: `answers` writes them, and a test holds the two together."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from headrace.server.failures import Refused

SUBMISSION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/StatementRequest"},
                "example": {"statement": "LIST DATABASES;"},
            },
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["request"],
                    "properties": {
                        "request": {"$ref": "#/components/schemas/StatementRequest"},
                        "attachments": {
                            "type": "array",
                            "description": "Files, which statements refer to by name.",
                            "items": {"type": "string", "format": "binary"},
                        },
                    },
                },
                "encoding": {"request": {"contentType": "application/json"}},
            },
        },
    }
}
"""What `submission.read_submission` reads."""
COMPLETION: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "allOf": [
                        {"$ref": "#/components/schemas/StatementRequest"},
                        {"type": "object", "properties": {"offset": {"type": "integer", "minimum": 0}}},
                    ],
                },
                "example": {"statement": "SELECT * FROM ", "offset": 14},
            }
        },
    }
}
"""What `submission.read_completion` reads."""


class Version(BaseModel):
    """The server's."""

    major: int
    minor: int
    patch: int


class Position(BaseModel):
    """A place in the text that was sent; offsets count code points from 0, and lines and columns from 1."""

    start: int
    end: int
    line: int
    column: int


class Problem(BaseModel):
    """An error in parts. Unknown parts are left out."""

    severity: str = Field(description="`error`, or `warning` if the statement can still run.")
    sqlState: str  # noqa: N815
    message: str
    expected: str = ""
    received: str = Field(default="", alias="found")
    hint: str = ""
    position: Position | None = None
    replacements: list[str] = Field(default=[], description="Texts that can replace the text at `position`.")


class StatementOutline(BaseModel):
    """A statement of the text, as the grammar reads it."""

    kind: str = Field(
        description="Name of the statement, such as `CreateRelationAs` or `SelectStatement`; a mutation of GraphQL has the same name."
    )
    position: Position
    query: Position | None = Field(
        None, description="The SELECT of the statement, with its PARTITION BY and QUERY WITH."
    )


class Problems(BaseModel):
    """Errors of a text, in its order, and its statements; an empty list if it has none."""

    diagnostics: list[Problem]
    statements: list[StatementOutline] = Field(
        description="The statements that could be parsed, up to the one after which errors are no longer reported."
    )


class Context(BaseModel):
    """The session's names after the statement; those that are not set are left out."""

    organizationID: str  # noqa: N815
    roleName: str = ""  # noqa: N815
    databaseName: str = ""  # noqa: N815
    schemaName: str = ""  # noqa: N815
    storeName: str = ""  # noqa: N815
    computePoolName: str = ""  # noqa: N815


class PlanStep(BaseModel):
    """A step to a desired state."""

    action: str = Field(
        description="`create`, `update`, `replace`, `leave`, `drop` or `conflict`, which cannot be applied."
    )
    kind: str
    name: str
    statement: str = Field(
        "", description="The statement that takes the step in `context`; left out if there is none."
    )
    context: Context
    notes: list[str] = Field(description="What changes, and how EXPLAIN classifies a replacement.")
    position: Position | None = None


class Plan(BaseModel):
    """Steps to a desired state, in an order that runs, and errors of its text; with errors it cannot be applied."""

    steps: list[PlanStep]
    diagnostics: list[Problem]


class Candidate(BaseModel):
    """A text that can stand at the position."""

    label: str
    kind: str = Field(
        description="`keyword`, `column`, `source`, `function`, `type`, `privilege`, `property`, `value`, or a kind of object."
    )
    insert: str = Field(description="The text that replaces the text from `start` to `end`.")
    detail: str = Field("", description="A type, a signature or a default.")
    documentation: str = ""


class Completion(BaseModel):
    """Candidates for a position, most specific first; offsets count code points from 0."""

    start: int
    end: int
    candidates: list[Candidate]
    opens: bool = Field(
        False, description="True if an editor should show the candidates before a letter is typed."
    )


class Function(BaseModel):
    """A built-in function."""

    name: str
    kind: str = Field(description="`scalar`, `aggregate` or `window`.")
    signature: str
    documentation: str


class Property(BaseModel):
    """A property of WITH (…)."""

    name: str
    statements: list[str] = Field(
        description="Leading words of the statements that accept it, `FROM` and `QUERY`."
    )
    documentation: str
    default: str
    storeType: str = Field("", description="The type of store that has it; empty if all have it.")  # noqa: N815
    secret: bool
    values: list[str] = Field(description="All values, if it has only a few.")


class PrivilegesOnKind(BaseModel):
    """Privileges that GRANT can grant on a kind of object."""

    kind: str
    privileges: list[str]


class Language(BaseModel):
    """The language of this version of the server."""

    words: list[str]
    statements: list[str]
    functions: list[Function]
    types: list[str]
    storeTypes: list[str]  # noqa: N815
    properties: list[Property]
    privileges: list[PrivilegesOnKind]


class ResultColumn(BaseModel):
    """A column of a result."""

    name: str
    type: str
    nullable: bool


class Partition(BaseModel):
    """Part of a result, requested by its number."""

    rowCount: int  # noqa: N815


class LiveResult(BaseModel):
    """Address of a live result, and the token that opens it once within a minute."""

    token: str
    uri: str
    statementID: str  # noqa: N815
    requestType: str  # noqa: N815


class Metadata(BaseModel):
    """Description of an answer's rows."""

    encoding: str
    columns: list[ResultColumn]
    partitionInfo: list[Partition]  # noqa: N815
    context: Context
    dataplaneRequest: LiveResult | None = None  # noqa: N815


class UnderWay(BaseModel):
    """A statement that takes longer: poll it."""

    sqlState: str  # noqa: N815
    statementID: str  # noqa: N815
    createdOn: int = Field(description="Seconds since 1970.")  # noqa: N815


class StatementAnswer(UnderWay):
    """Answer to a statement: one partition of a result, the offer of a live one, or an error of SQL; `sqlState` is `00000` for the first
    two."""

    statementIDs: list[str] = Field([], description="One per statement, if the request has several.")  # noqa: N815
    message: str = ""
    error: Problem | None = None
    metadata: Metadata
    data: list[list[str | None]]


Answers = dict[int | str, dict[str, Any]]
_BUSY = {
    "model": Refused,
    "description": ("Too many statements are running; `Retry-After` is the time to wait."),
}
OF_STATEMENTS: Answers = {
    200: {"model": StatementAnswer, "description": "A result, the offer of a live one, or an error of SQL."},
    202: {"model": UnderWay, "description": "Not finished yet: poll it."},
    503: _BUSY,
}
OF_CHECKS: Answers = {200: {"model": Problems, "description": "The errors and the statements."}, 503: _BUSY}
OF_PLANS: Answers = {200: {"model": Plan, "description": "The steps, or the errors."}, 503: _BUSY}
OF_COMPLETIONS: Answers = {
    200: {
        "model": Completion,
        "description": "The candidates; none if the text is wrong before the position.",
    },
    503: _BUSY,
}
OF_LANGUAGE: Answers = {200: {"model": Language, "description": "The language."}}
OF_POLLS: Answers = {
    **OF_STATEMENTS,
    404: {"model": Refused, "description": "The statement does not exist, or its result has expired."},
}
"""What the routes answer with."""
