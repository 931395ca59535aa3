"""Functions."""

from __future__ import annotations

from collections.abc import Collection

from headrace.catalog.objects import UserFunction
from headrace.sql.statements.function import CreateFunction
from headrace.statements.base import Execution
from headrace.statements.definitions import function_statement
from headrace.statements.desired_state.comparison import LEAVE, Described, Verdict, compares
from headrace.statements.desired_state.steps import Action
from headrace.statements.function import declared_function


def _find(statement: CreateFunction, run: Execution, _desired: Collection[str]) -> Described:
    function = declared_function(statement, run)
    same = [item for item in run.catalog.functions(function.name) if item.signature == function.signature]
    return Described(same[0] if same else None, "function", str(function.signature))


@compares(CreateFunction, find=_find)
def compare(statement: CreateFunction, function: UserFunction, run: Execution) -> Verdict:
    """Refuse another declaration: a function cannot be changed."""
    if function_statement(declared_function(statement, run)).sql() == function_statement(function).sql():
        return LEAVE
    return Verdict(Action.CONFLICT, ("it is declared otherwise; DROP FUNCTION first, or use another name",))
