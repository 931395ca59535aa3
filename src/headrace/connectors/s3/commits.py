"""Atomic files of a batch, written once: uploads are invisible until they are completed, and a list of them is stored next to the
query's checkpoint. ADR 26.

Tasks upload parts and complete nothing. A batch is committed when its list is on disk. Then this process, or the next one after a
crash, completes its uploads. Uploads without a list are aborted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from headrace.connectors.s3.failures import code_of
from headrace.runtime.fail_points import fail_point

_THREADS = 8


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
    """Commits of a query's sink; `folder` belongs to it alone and outlives the process."""

    def __init__(self, client: Any, bucket: str, folder: Path) -> None:
        self._client = client
        self._bucket = bucket
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def recover(self, prefix: str, mark: str) -> None:
        """Complete committed uploads, and abort all other uploads below a prefix whose names contain the mark."""
        for path in sorted(self._folder.glob("*.json")):
            self._complete(Upload(**item) for item in json.loads(path.read_bytes()))
        pages = self._client.get_paginator("list_multipart_uploads").paginate(
            Bucket=self._bucket, Prefix=prefix
        )
        for page in pages:
            for item in page.get("Uploads", ()):
                if mark in item["Key"].rpartition("/")[2]:
                    abort(self._client, self._bucket, item["Key"], item["UploadId"])

    def contains(self, epoch: int) -> bool:
        """True if a batch is committed; its files are complete then, after `recover`."""
        return self._path(epoch).exists()

    def commit(self, epoch: int, uploads: Iterable[Upload]) -> None:
        """Make the files visible to all readers, and delete what was kept of earlier batches, which are never repeated."""
        uploads = list(uploads)
        path = self._path(epoch)
        new = path.with_suffix(".new")
        with new.open("w") as file:
            json.dump([asdict(item) for item in uploads], file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        if uploads:
            # One before the others, so that a test can kill the driver in between.
            self._complete(uploads[:1])
            fail_point("inside_transaction")
            self._complete(uploads[1:])
        for other in self._folder.glob("*.json"):
            if other != path:
                other.unlink()

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

    def _path(self, epoch: int) -> Path:
        return self._folder / f"{epoch}.json"
