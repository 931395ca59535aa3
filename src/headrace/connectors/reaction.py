"""Recognition of reports by clients and servers: each store type's table of them is in its `failures.py`."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState


@dataclass(frozen=True)
class Reaction:
    """Pattern of a report and the error for it: cause, SQLSTATE, sentence, hint.

    With `detail`, the original message follows the sentence. `{server}` in the sentence is the requested address.
    """

    pattern: str
    error: type[UserError] | type[ExternalError]
    state: SqlState
    message: str
    hint: str
    detail: bool = False

    def as_error(self, words: str = "", server: str = "") -> HeadraceError:
        """Return the error, with the reporter's `words` if the reaction includes them."""
        message = self.message.format(server=server)
        return self.error(
            self.state, f"{message}: {words}" if self.detail and words else message, hint=self.hint
        )
