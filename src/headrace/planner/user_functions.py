"""Users' functions of a bound query as data of its plan, by which drivers and the processes of snapshot queries call them."""

from __future__ import annotations

from headrace.analyzer.functions.implementation import Implementation
from headrace.analyzer.plan import LogicalPlan
from headrace.catalog.objects import Language
from headrace.planner.physical import UserFunction


def user_functions(logical: LogicalPlan) -> list[UserFunction]:
    """Return the functions of users that a query calls, those inside of materialized views included, each once."""
    called = {each.id: each for implementations in logical.functions.values() for each in implementations}
    return [_planned(called[identifier]) for identifier in sorted(called)]


def _planned(implementation: Implementation) -> UserFunction:
    function = implementation.function
    return UserFunction(
        id=implementation.id,
        signature=str(function.signature),
        digest=implementation.digest,
        language="python" if function.language is Language.PYTHON else "java",
        class_name=function.class_name,
        kind="vectorized" if function.vectorized else function.kind.value,
        parameters=[str(kind) for _, kind in function.parameters],
        arguments=[str(kind) for kind in implementation.arguments],
        result=str(implementation.result),
        egress=list(function.egress),
    )
