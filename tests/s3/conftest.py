"""Checked properties of a store."""

from __future__ import annotations

import pytest

from harness.kinesis import ACCESS_KEY, SECRET_KEY
from harness.s3 import S3Client
from headrace.connectors.s3.options import PROPERTIES, read_store
from headrace.core.properties import PropertyReader, Scope, of_scope, stored

Store = dict[str, str]


def checked(properties: Store) -> Store:
    """Return properties as CREATE STORE checks them."""
    reader = PropertyReader(stored(properties), of_scope(PROPERTIES, Scope.STORE), what="a store")
    texts = read_store(reader)
    reader.finish()
    return texts


@pytest.fixture
def store(s3: S3Client) -> Store:
    keys = {"aws.access_key_id": ACCESS_KEY, "aws.secret_access_key": SECRET_KEY}
    return checked({"uris": s3.uri, "tls.disabled": "TRUE", **keys})
