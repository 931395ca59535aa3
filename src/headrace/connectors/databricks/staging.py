"""The bucket of a store, through which rows pass on their way to a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from headrace.connectors.databricks.options import BUCKET, IDENTITY, REGION, S3_ENDPOINT, URIS
from headrace.connectors.s3.client import s3
from headrace.connectors.s3.failures import classified
from headrace.connectors.tls import TLS_DISABLED
from headrace.core.errors import ExternalError, UserError

_THREADS = 4
_HINT = "Check 'databricks.cloud.s3.bucket', 'databricks.cloud.region' and the store's 'aws.…' properties, and what IAM allows them."


class Staging:
    """The bucket of a store. Methods raise UserError or ExternalError, classified."""

    def __init__(self, store: Mapping[str, str]) -> None:
        self._bucket = store[BUCKET.name]
        self._store = _as_s3(store)
        with self._classified():
            self._client = s3(self._store, connections=_THREADS)

    def test(self) -> None:
        """Check that the bucket can be listed."""
        with self._classified():
            self._client.list_objects_v2(Bucket=self._bucket, MaxKeys=1)

    def uri(self, folder: str) -> str:
        """Return a folder as a warehouse names it."""
        return f"s3://{self._bucket}/{folder}/"

    def upload(self, files: Iterable[Path], folder: str) -> None:
        """Upload files into a folder, under their own names; files there are replaced."""

        def one(file: Path) -> None:
            self._client.upload_file(str(file), self._bucket, f"{folder}/{file.name}")

        with self._classified(), ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(one, files))

    def delete(self, names: Iterable[str], folder: str) -> None:
        """Delete files of a folder; missing ones are ignored."""
        with self._classified():
            for name in names:
                self._client.delete_object(Bucket=self._bucket, Key=f"{folder}/{name}")

    @contextmanager
    def _classified(self) -> Iterator[None]:
        try:
            with classified(self._store, self._bucket):
                yield
        except (UserError, ExternalError) as error:
            raise type(error)(error.state, f"bucket: {error.message}", hint=_HINT) from None


def _as_s3(store: Mapping[str, str]) -> dict[str, str]:
    """Return the bucket as an S3 store's properties."""
    endpoint, bucket, region = store.get(S3_ENDPOINT.name), store[BUCKET.name], store[REGION.name]
    uris = f"{endpoint}/{bucket}" if endpoint else f"https://s3.{region}.amazonaws.com/{bucket}"
    keys = (IDENTITY.access_key_id, IDENTITY.secret_access_key, IDENTITY.role, IDENTITY.external_id)
    texts = {spec.name: store[spec.name] for spec in keys if spec.name in store}
    plain = urlsplit(uris).scheme == "http"
    return texts | {URIS.name: uris, TLS_DISABLED.name: str(plain).upper(), "aws.region": region}
