"""Objects whose content is not compared: only the store or the server that uses it knows whether it differs."""

from __future__ import annotations

from typing import Any

from headrace.sql.ast import Statement
from headrace.sql.statements.compute_pool import CreateComputePool
from headrace.sql.statements.descriptor_source import CreateDescriptorSource
from headrace.sql.statements.function_source import CreateFunctionSource
from headrace.sql.statements.secret import CreateSecret
from headrace.statements.base import Execution
from headrace.statements.desired_state.comparison import NOT_COMPARED, Verdict, by_name, compares


@compares(CreateComputePool, find=by_name("compute pool"))
@compares(CreateDescriptorSource, find=by_name("descriptor source"))
@compares(CreateFunctionSource, find=by_name("function source"))
@compares(CreateSecret, find=by_name("secret"))
def compare(_statement: Statement, _target: Any, _run: Execution) -> Verdict:
    """Leave the object as it is."""
    return NOT_COMPARED
