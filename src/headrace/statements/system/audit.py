"""Who did what, and what was refused."""

from __future__ import annotations

from headrace.catalog.access import Privilege
from headrace.core.schema import Column
from headrace.core.types import BIGINT, TIMESTAMP, VARCHAR
from headrace.statements.base import Execution
from headrace.statements.system.relation import Rows, always, system_relation

ROWS_MAX = 100_000


@system_relation(
    "audit",
    *(always("id", BIGINT), always("time", TIMESTAMP), always("event"), always("outcome")),
    *(Column("sqlstate", VARCHAR), Column("user_name", VARCHAR), Column("role_name", VARCHAR)),
    *(Column("credential", VARCHAR), Column("address", VARCHAR), Column("door", VARCHAR)),
    *(Column("statement_id", VARCHAR), Column("statement", VARCHAR), Column("duration_ms", BIGINT)),
    *(Column("detail", VARCHAR), always("times", BIGINT)),
    doc="What was done and what was refused, the newest 100,000 events of the days of `HEADRACE_AUDIT_DAYS`; it takes READ_AUDIT. "
    "`event` is `statement`, `check` (a statement that was only checked, and refused for a privilege), "
    "`sign_in`, `sign_out`, `invitation`, `request` (one that was turned away, for its token or for a privilege), "
    "`stream` (one that was refused or ended by us) or `lost`; `outcome` is `allowed`, `denied` or `failed`. `credential` is what the user "
    "signed in with, such as `token ci`; `address` is the other end of the connection and `door` is `api`, `page` or `stream`. "
    "`statement` has `****` for what is or may be secret, and only its first words if it could not be read. "
    "What repeats itself within a second has one row, with how many `times`; so has what a stranger repeats within ten minutes, and a LIST "
    "that the page repeats, after its first row.",
    needs=Privilege.READ_AUDIT,
)
def audit(run: Execution) -> Rows:
    return [
        (
            *(
                number,
                entry.time,
                entry.event.value,
                entry.outcome.value,
                entry.sqlstate,
                entry.user,
                entry.role,
            ),
            *(entry.credential, entry.address, entry.door, entry.statement_id, entry.statement),
            *(entry.duration_ms, entry.detail, entry.times),
        )
        for number, entry in run.catalog.audit.read(ROWS_MAX)
    ]
