"""Refusals in docs/reference/statements.md: each has 0A000 and its position. The table of statements is generated."""

from __future__ import annotations

import re
from pathlib import Path

from harness.session import ADMINISTRATOR, open_session
from headrace.core.context import SessionContext

REFERENCE = Path(__file__).resolve().parents[3] / "docs/reference"
SECTION = (
    (REFERENCE / "statements.md").read_text(encoding="utf-8").partition("## Known, and not supported yet")[2]
)
FORMS = re.findall(r"^\| `([^`]+)` \|", SECTION.partition("<!-- end -->")[2], re.MULTILINE)
RELATIONS = (
    (REFERENCE / "queries.md").read_text(encoding="utf-8").partition("```sql\n")[2].partition("```")[0]
)
BESIDE = """
CREATE MATERIALIZED VIEW spent AS SELECT customer, COUNT(*) AS orders FROM orders GROUP BY customer;
CREATE STORE db WITH ('type' = POSTGRESQL, 'uris' = 'postgresql://localhost/db', 'postgres.username' = 'u', 'postgres.password' = 'p');
CREATE TABLE prices (item VARCHAR, price BIGINT) WITH ('store' = 'db');
"""


async def test_each_form_of_the_page_is_refused(tmp_path: Path) -> None:
    before, sqlstates = RELATIONS + BESIDE, {}
    context = SessionContext("", database="docs", schema="public", store="k")
    async with open_session(tmp_path) as session:
        session.catalog.create_database("docs", "sysadmin")
        for form in FORMS:
            checked = await session.service.check(
                before + form, principal=ADMINISTRATOR, context=context, files={}
            )
            diagnostics = checked.diagnostics
            sqlstates[form] = [
                one.sqlstate for one in diagnostics if one.span and one.span.start >= len(before)
            ]
            assert len(diagnostics) == len(sqlstates[form]), diagnostics[0].message
    assert len(FORMS) > 30
    assert [form for form, states in sqlstates.items() if states != ["0A000"]] == []
