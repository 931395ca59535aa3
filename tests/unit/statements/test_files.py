"""Files attached to a statement, in place of properties that accept files."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness.session import ADMINISTRATOR, Session
from headrace.core.errors import UserError
from headrace.core.sqlstate import SqlState

PEM = b"-----BEGIN CERTIFICATE-----"


async def failure(session: Session, properties: str, files: Mapping[str, bytes]) -> UserError:
    text = f"CREATE SCHEMA_REGISTRY x WITH ('type' = CONFLUENT, 'uris' = 'ftp://x', {properties})"
    with pytest.raises(UserError) as caught:
        await session.service.execute(text, principal=ADMINISTRATOR, context=session.context, files=files)
    assert caught.value.state is SqlState.INVALID_PARAMETER
    return caught.value


@pytest.mark.parametrize("named", ["@ca.pem", "ca.pem", "@/certs/ca.pem", "certs/ca.pem"])
async def test_a_file_that_came_stands_for_its_name(session: Session, named: str) -> None:
    text = f"UPDATE SCHEMA_REGISTRY r WITH ('tls.ca_cert_file' = '{named}')"
    with pytest.raises(UserError) as caught:
        await session.service.execute(
            text, principal=ADMINISTRATOR, context=session.context, files={"ca.pem": b"nonsense"}
        )
    assert "expected the PEM text" in caught.value.message


async def test_missing_and_non_text_parts_are_reported(session: Session) -> None:
    missing = await failure(session, "'tls.ca_cert_file' = '@/certs/ca.pem'", {"other.pem": PEM})
    assert "the file 'ca.pem' was not sent with the statement" in missing.message
    assert missing.span is not None
    binary = await failure(session, "'tls.ca_cert_file' = '@ca.pem'", {"ca.pem": b"\xff"})
    assert "not UTF-8" in binary.message


async def test_only_properties_that_may_be_files_are_read_as_such(session: Session) -> None:
    refused = await failure(
        session, "'confluent.username' = '@u', 'confluent.password' = 'p'", {"u": b"secret"}
    )
    assert "ftp://x" in refused.message
