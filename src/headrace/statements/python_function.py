"""Kind and parameters of a function in Python, read from its code. The code is parsed and not run, since it may be hostile."""

from __future__ import annotations

import ast
import warnings
from dataclasses import replace

from headrace.catalog.objects import FunctionKind, UserFunction
from headrace.core.errors import Span, UserError
from headrace.core.sqlstate import SqlState
from headrace.core.wording import counted

CODE_BYTES_MAX = 256 * 1024
_SELF = 1
"""The first parameter of a method."""


def checked_python(function: UserFunction, code: str, *, table: bool, span: Span | None) -> UserFunction:
    """Return a function with its kind. `code` is its module; `table`: it is declared with RETURNS TABLE; `span` is the place of its code.

    Raises UserError 42601 for code that is not Python, 3D017 for a module without the named function or class, 42804 for one that does not
    take the declared parameters, 53000 for code that is too long.
    """
    if function.code is not None and len(code.encode()) > CODE_BYTES_MAX:
        raise UserError(
            SqlState.CONFIGURATION_LIMIT_EXCEEDED,
            f"expected at most {CODE_BYTES_MAX} bytes of code, received {len(code.encode())}",
            hint="Divide it into several functions.",
            span=span,
        )
    entry = _entry(_parsed(code, span), function.class_name.rpartition(".")[2], span)
    count = len(function.parameters)
    if isinstance(entry, ast.ClassDef):
        methods = {node.name: node for node in entry.body if isinstance(node, ast.FunctionDef)}
        for name, taken in (("accumulate", count), ("finish", 0)):
            if name not in methods or not _takes(methods[name].args, taken + _SELF):
                message = f"the class {entry.name} has no method {name} for {counted(taken, 'argument')}"
                hint = "An aggregate is a class with accumulate(self, …), which gets a row, and finish(self), which returns the result."
                raise UserError(SqlState.DATATYPE_MISMATCH, message, hint=hint, span=span)
        if not count or table or function.vectorized:
            raise UserError(
                SqlState.DATATYPE_MISMATCH,
                "an aggregate has at least one parameter, returns a value, and is not vectorized",
                span=span,
            )
        return replace(function, kind=FunctionKind.AGGREGATE)
    if not _takes(entry.args, count):
        raise UserError(
            SqlState.DATATYPE_MISMATCH,
            f"the Python function {entry.name} does not accept {counted(count, 'argument')}",
            hint="Declare as many parameters as it has.",
            span=span,
        )
    if table and function.vectorized:
        raise UserError(SqlState.FEATURE_NOT_SUPPORTED, "a table function cannot be vectorized", span=span)
    return replace(function, kind=FunctionKind.TABLE if table else FunctionKind.SCALAR)


def _parsed(code: str, span: Span | None) -> ast.Module:
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.parse(code)
    except SyntaxError as error:
        message = f"the code of the function is not Python: {error.msg} in line {error.lineno}"
        raise UserError(
            SqlState.SYNTAX_ERROR, message, hint="The lines are counted from AS.", span=span
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        message = f"the code of the function cannot be parsed: {type(error).__name__}"
        raise UserError(SqlState.SYNTAX_ERROR, message, hint="Nest it less deeply.", span=span) from None


def _entry(module: ast.Module, name: str, span: Span | None) -> ast.FunctionDef | ast.ClassDef:
    known = [node for node in module.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    entry = next((node for node in reversed(known) if node.name == name), None)
    if entry is None:
        names = ", ".join(node.name for node in known)
        raise UserError(
            SqlState.FUNCTION_NOT_FOUND,
            f"the code defines no function or class {name}",
            hint=f"It defines {names}. 'handler' names another one than the function's own name."
            if names
            else "Write def.",
            span=span,
        )
    return entry


def _takes(arguments: ast.arguments, count: int) -> bool:
    positional = len(arguments.posonlyargs) + len(arguments.args)
    required = positional - len(arguments.defaults)
    needs_words = any(default is None for default in arguments.kw_defaults)
    return not needs_words and count >= required and (arguments.vararg is not None or count <= positional)
