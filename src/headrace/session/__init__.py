"""A conversation: text in, one outcome and the changed context out.

Role: the single road from every door (REST, CLI, web, drivers) to a statement: parse, authorise, handle, log.
Entry point: `service.StatementService`.
May import: statements and everything below. To add a statement see `headrace.statements`.
"""

from headrace.core.context import SessionContext
from headrace.session.service import Executed, StatementService

__all__ = ["Executed", "SessionContext", "StatementService"]
