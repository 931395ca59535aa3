"""Clients of store types that come with an extra of the package, as `pip install 'headrace[snowflake]'`."""

from __future__ import annotations

import importlib
from types import ModuleType

from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState


def client_module(module: str, *, extra: str, label: str) -> ModuleType:
    """Return a module of a client library. Raises UserError 0A000, with what to install, where the library is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"this server has no client for {label}: the Python package {(error.name or module).partition('.')[0]} is missing",
            hint=f"The operator of the server installs the package with pip install 'headrace[{extra}]', and restarts the server.",
        ) from None
