"""ALERT statements: what they answer, keep secret and refuse."""

from __future__ import annotations

import pytest

from harness.session import Session
from headrace.core.errors import UserError

URL = "https://127.0.0.1/services/hunter2"


@pytest.fixture
async def copied(session: Session) -> str:
    """The id of the query named copied."""
    await session.run(
        "INSERT INTO shop.public.orders SELECT n FROM lab.tests.orders QUERY WITH ('query.name' = copied)"
    )
    (query,) = session.catalog.unfinished_queries()
    return query.id


async def test_an_alert_is_created_listed_described_and_dropped(session: Session, copied: str) -> None:
    await session.run(f"CREATE ALERT a ON QUERY copied WHEN errored, lag_grows WITH ('url' = '{URL}')")
    assert await session.rows("LIST ALERTS", "Name", "QueryID", "Codes", "Host", "Firing") == [
        ("a", copied, "errored, lag_grows", "127.0.0.1", "0")
    ]
    described = str(await session.rows("DESCRIBE ALERT a"))
    assert "hunter2" not in described
    await session.run(f"CREATE ALERT IF NOT EXISTS a ON QUERY copied WITH ('url' = '{URL}')")
    await session.run("DROP ALERT a")
    assert not await session.rows("LIST ALERTS")


@pytest.mark.usefixtures("copied")
async def test_the_token_may_be_a_secret_which_the_alert_then_uses(session: Session) -> None:
    await session.run("CREATE SECRET pin WITH ('type' = generic_string, 'secret_string' = 'open sesame')")
    await session.run(f"CREATE ALERT a ON QUERY copied WITH ('url' = '{URL}', 'token' = SECRET pin)")
    (facts,) = session.catalog.alerts.all()
    assert session.catalog.opened_alert(facts).properties == {"url": URL, "token": "open sesame"}
    with pytest.raises(UserError, match="alert a"):
        await session.run("DROP SECRET pin")
    await session.run("ALTER SECRET pin RENAME TO key")
    (facts,) = session.catalog.alerts.all()
    assert session.catalog.opened_alert(facts).properties["token"] == "open sesame"


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"CREATE ALERT a ON QUERY copied WHEN eror WITH ('url' = '{URL}')", "no finding 'eror'"),
        (f"CREATE ALERT a ON QUERY missing WITH ('url' = '{URL}')", "missing"),
        ("CREATE ALERT a ON QUERY copied WITH ('token' = 't')", "'url'"),
        ("CREATE ALERT a ON QUERY copied WITH ('url' = 'ftp://h/hunter2')", "'url'"),
        ("CREATE ALERT a ON QUERY copied WITH ('url' = 'https://user:hunter2@h/')", "'url'"),
        (f"CREATE ALERT a ON ORGANIZATION WITH ('url' = '{URL}')", "OWNERSHIP"),
        ("DROP ALERT a", "does not exist"),
    ],
)
async def test_what_is_wrong_is_refused_and_nothing_is_created(
    session: Session, text: str, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        await session.run(text)
    assert message in caught.value.text()
    assert "hunter2" not in caught.value.text()
    assert not session.catalog.alerts.all()
