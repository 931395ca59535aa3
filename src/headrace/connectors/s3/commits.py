"""Atomic files of a batch, written once: uploads are invisible until they are completed, and a list of them is stored next to the
query's checkpoint. ADR 26.

Tasks upload parts and complete nothing. A batch is committed when its list is written. Then this process, or the next one after a
crash, completes its uploads. Uploads without a list are aborted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from botocore.exceptions import ClientError

from headrace.connectors.checkpoint_store import CheckpointStore
from headrace.connectors.s3.failures import code_of
from headrace.runtime.fail_points import fail_point

_THREADS = 8
_ENDING = ".json"


@dataclass(frozen=True)
class Upload:
    """A file that is uploaded whole and not there yet."""

    key: str
    id: str
    etag: str


def upload(client: Any, bucket: str, key: str, data: Any) -> Upload:
    """Raises botocore's errors; what it began is then aborted."""
    upload_id = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    try:
        part = client.upload_part(Bucket=bucket, Key=key, UploadId=upload_id, PartNumber=1, Body=data)
    except BaseException:
        abort(client, bucket, key, upload_id)
        raise
    return Upload(key, upload_id, part["ETag"])


def abort(client: Any, bucket: str, key: str, upload_id: str) -> None:
    """Abort an upload; do nothing if it does not exist."""
    try:
        client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)
    except ClientError as error:
        if code_of(error) != "NoSuchUpload":
            raise


class Commits:
    """Commits of a query's sink; `lists` is a place that belongs to it alone and outlives the process."""

    def __init__(self, client: Any, bucket: str, lists: CheckpointStore) -> None:
        self._client = client
        self._bucket = bucket
        self._lists = lists
        self._epochs = {int(name.removesuffix(_ENDING)) for name in lists.names("") if name.endswith(_ENDING)}

    def recover(self, prefix: str, mark: str) -> None:
        """Complete committed uploads, and abort all other uploads below a prefix whose names contain the mark."""
        for epoch in sorted(self._epochs):
            content = self._lists.read(_name(epoch)) or b"[]"
            self._complete(Upload(**item) for item in json.loads(content))
        pages = self._client.get_paginator("list_multipart_uploads").paginate(
            Bucket=self._bucket, Prefix=prefix
        )
        for page in pages:
            for item in page.get("Uploads", ()):
                if mark in item["Key"].rpartition("/")[2]:
                    abort(self._client, self._bucket, item["Key"], item["UploadId"])

    def contains(self, epoch: int) -> bool:
        """True if a batch is committed; its files are complete then, after `recover`."""
        return epoch in self._epochs

    def commit(self, epoch: int, uploads: Iterable[Upload]) -> None:
        """Publish the files to all readers, and delete what was kept of earlier batches, which are never repeated."""
        uploads = list(uploads)
        self._lists.write(_name(epoch), json.dumps([asdict(item) for item in uploads]))
        if uploads:
            # One before the others, so that a test can kill the driver in between.
            self._complete(uploads[:1])
            fail_point("inside_transaction")
            self._complete(uploads[1:])
        for other in self._epochs - {epoch}:
            self._lists.delete(_name(other))
        self._epochs = {epoch}

    def _complete(self, uploads: Iterable[Upload]) -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._complete_one, uploads))

    def _complete_one(self, item: Upload) -> None:
        parts = {"Parts": [{"PartNumber": 1, "ETag": item.etag}]}
        try:
            self._client.complete_multipart_upload(
                Bucket=self._bucket, Key=item.key, UploadId=item.id, MultipartUpload=parts
            )
        except ClientError as error:
            # It was completed before, if the file is there: nobody else has a file of that name.
            if code_of(error) != "NoSuchUpload" or not self._is_there(item.key):
                raise

    def _is_there(self, key: str) -> bool:
        try:
            self._client.head_object(Bucket=self._bucket, Key=key)
        except ClientError as error:
            if code_of(error) not in ("404", "NoSuchKey"):
                raise
            return False
        return True


def _name(epoch: int) -> str:
    return f"{epoch}{_ENDING}"
