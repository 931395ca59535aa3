"""The policy: examples of statements, and what it requires of the active role, as `requirements.txt` has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.session import ADMINISTRATOR, Session
from headrace.sql import parse
from headrace.statements.base import HANDLERS, REQUIREMENTS, Execution

GOLDEN = Path(__file__).with_name("requirements.txt")


def requirements(session: Session, statements: list[str]) -> Iterator[str]:
    """Each statement and, indented, its requirements."""
    for text in statements:
        (statement,) = parse(text)
        services = session.service._services
        run = Execution(services, ADMINISTRATOR, session.context)
        yield text
        yield from (f"    {item}" for item in REQUIREMENTS[type(statement)](statement, run))


async def test_what_each_statement_requires(session: Session) -> None:
    await session.run("CREATE MATERIALIZED VIEW shop.public.v AS SELECT n FROM shop.public.orders")
    await session.run(
        "INSERT INTO lab.tests.orders SELECT n FROM shop.public.orders QUERY WITH ('query.name' = copied)"
    )
    await session.run("CREATE SECRET pin WITH ('type' = generic_string, 'secret_string' = 'open sesame')")
    await session.run("USE DATABASE shop; USE STORE k")
    query, copied = session.catalog.queries()
    session.save("saved", copied)
    await session.run("CREATE ALERT paged ON QUERY copied WITH ('url' = 'http://127.0.0.1:1/')")
    golden = GOLDEN.read_text().replace("QUERY_ID", query.id).replace("COPIED_ID", copied.id)
    statements = [line for line in golden.splitlines() if line and not line.startswith((" ", "#"))]
    expected = [line for line in golden.splitlines() if line and not line.startswith("#")]
    assert list(requirements(session, statements)) == expected
    assert {type(parse(text)[0]) for text in statements} == set(HANDLERS), (
        "each kind of statement has an example"
    )
