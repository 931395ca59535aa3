"""Our own errors on their way from one of Spark's Python workers to the driver, where only the text of an exception arrives."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState

_MARK = "HEADRACE_CARRIED"
_CARRIED = re.compile(rf"{_MARK}:([A-Za-z0-9+/=]+):")
_KINDS = {kind.__name__: kind for kind in (UserError, ExternalError)}


@contextmanager
def carrying_errors() -> Iterator[None]:
    """Raise our errors inside in a form that `carried` recognizes."""
    try:
        yield
    except (UserError, ExternalError) as error:
        raise RuntimeError(carried_text(error)) from None


def carried_text(error: UserError | ExternalError) -> str:
    """Return the text of an exception that carries an error."""
    facts = {
        "kind": type(error).__name__,
        "state": error.state.value,
        "message": error.message,
        "hint": error.hint,
    }
    text = base64.b64encode(json.dumps(facts).encode()).decode()
    return f"{_MARK}:{text}:"


def carried(text: str) -> HeadraceError | None:
    """Return the error that an exception's text carries, if any."""
    match = _CARRIED.search(text)
    if match is None:
        return None
    facts = json.loads(base64.b64decode(match[1]))
    return _KINDS[facts["kind"]](SqlState(facts["state"]), facts["message"], hint=facts["hint"])
