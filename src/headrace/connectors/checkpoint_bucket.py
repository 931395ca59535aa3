"""Checkpoints of compute pools in a bucket of S3. ADR 87.

boto3 is imported in functions: every driver loads this module, and few keep their checkpoints there.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from headrace.connectors.aws import OWN_REGION, client_config
from headrace.connectors.reaction import Reaction
from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.core.sqlstate import SqlState

SCHEME = "s3://"
_URI = re.compile(
    r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:/[A-Za-z0-9_=-][A-Za-z0-9._=-]{0,127}){0,8})/?", re.ASCII
)
_VARIABLE = "HEADRACE_CHECKPOINT_S3_"
_KEYS_MAX = 1000
"""Keys of one request to delete objects."""
_TRANSFERS = 8
"""Files that are downloaded or uploaded at the same time."""
_AWAY, _WRONG = SqlState.REMOTE_UNAVAILABLE, SqlState.INVALID_PARAMETER
_REACTIONS = (
    Reaction(
        r"NoSuchBucket",
        UserError,
        _WRONG,
        "{server} does not exist",
        "Create the bucket, or correct 'compute_pool.checkpoints'.",
    ),
    Reaction(
        r"PermanentRedirect|TemporaryRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|\b301\b",
        ExternalError,
        _AWAY,
        "{server} is in another region",
        f"The operator sets {_VARIABLE}REGION to the region of the bucket, and restarts the server.",
    ),
    Reaction(
        r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|ExpiredToken|RequestTimeTooSkewed|InvalidClientTokenId"
        r"|UnrecognizedClient|NoCredentialsError|PartialCredentialsError",
        ExternalError,
        _AWAY,
        "S3 refused the server's access key for {server}",
        f"The operator corrects {_VARIABLE}ACCESS_KEY_ID and {_VARIABLE}SECRET_ACCESS_KEY, and restarts the server.",
    ),
    Reaction(
        r"AccessDenied|AllAccessDisabled|Forbidden|\b403\b",
        ExternalError,
        _AWAY,
        "S3 does not allow the server to use {server}",
        "The server's key needs s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject, s3:DeleteObject and "
        "s3:AbortMultipartUpload on its objects.",
    ),
)
_UNREACHABLE = Reaction(
    "",
    ExternalError,
    _AWAY,
    "the S3 service of {server} does not answer as S3",
    f"Check {_VARIABLE}ENDPOINT, http or https in it, and the network.",
)


@dataclass(frozen=True)
class Login:
    """The S3 service and the identity of this server there; without an endpoint AWS, without a key the identity of the machine."""

    endpoint: str | None = None
    region: str = OWN_REGION
    key_id: str | None = None
    secret: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> Login:
        """Return the login in variables of the environment, as `variables` writes them."""
        named = {name.removeprefix(_VARIABLE): text for name, text in variables.items()}
        return cls(
            named.get("ENDPOINT"),
            named.get("REGION", OWN_REGION),
            named.get("ACCESS_KEY_ID"),
            named.get("SECRET_ACCESS_KEY"),
        )

    def variables(self) -> dict[str, str]:
        """Return the variables of the environment of a driver."""
        named = {
            "ENDPOINT": self.endpoint,
            "REGION": self.region,
            "ACCESS_KEY_ID": self.key_id,
            "SECRET_ACCESS_KEY": self.secret,
        }
        return {f"{_VARIABLE}{name}": text for name, text in named.items() if text is not None}


@dataclass(frozen=True)
class S3Folder:
    """A folder of a bucket: the objects whose keys begin with `prefix` and a slash. See `CheckpointStore`."""

    login: Login
    bucket: str
    prefix: str

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}".rstrip("/")

    def at(self, *names: str) -> S3Folder:
        return S3Folder(self.login, self.bucket, "/".join(filter(None, (self.prefix, *names))))

    def exists(self) -> bool:
        with self._classified():
            listed = self._client.list_objects_v2(Bucket=self.bucket, Prefix=self._key(""), MaxKeys=1)
        return bool(listed.get("KeyCount"))

    def names(self, folder: str) -> list[str]:
        prefix = self._key(f"{folder}/" if folder else "")
        with self._classified():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=prefix, Delimiter="/"
            )
            keys = [
                key
                for page in pages
                for key in (
                    *(item["Key"] for item in page.get("Contents", ())),
                    *(item["Prefix"].rstrip("/") for item in page.get("CommonPrefixes", ())),
                )
            ]
        # Hadoop marks a folder by an object with the name of the folder and a slash.
        return [name for key in keys if (name := key.removeprefix(prefix))]

    def read(self, name: str) -> bytes | None:
        content: bytes | None = None
        with self._classified(may_miss=True):
            content = self._client.get_object(Bucket=self.bucket, Key=self._key(name))["Body"].read()
        return content  # noqa: RET504 - None if the block ended early

    def write(self, name: str, content: str | bytes) -> None:
        body = content.encode() if isinstance(content, str) else content
        with self._classified():
            self._client.put_object(Bucket=self.bucket, Key=self._key(name), Body=body)

    def delete(self, name: str) -> None:
        with self._classified(may_miss=True):
            self._client.delete_object(Bucket=self.bucket, Key=self._key(name))

    def create(self, name: str, content: str) -> bool:
        """Write a file that is to be new. Return False, and write nothing, if it is there."""
        from botocore.exceptions import ClientError

        with self._classified():
            try:
                self._client.put_object(
                    Bucket=self.bucket, Key=self._key(name), Body=content.encode(), IfNoneMatch="*"
                )
            except ClientError as error:
                if _code(error) not in ("PreconditionFailed", "412", "ConditionalRequestConflict"):
                    raise
                return False
        return True

    def written_at(self, name: str) -> float | None:
        moment: float | None = None
        with self._classified(may_miss=True):
            head = self._client.head_object(Bucket=self.bucket, Key=self._key(name))
            moment = head["LastModified"].timestamp()
        return moment  # noqa: RET504 - likewise

    def remove(self) -> None:
        from botocore.exceptions import ClientError

        with self._classified():
            for keys in self._pages():
                delete = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
                answer = self._client.delete_objects(Bucket=self.bucket, Delete=delete)
                for refused in answer.get("Errors", ())[:1]:
                    raise ClientError({"Error": refused}, "DeleteObjects")

    def copy_to(self, target: S3Folder, names: Iterable[str] | None = None) -> None:
        """Copy files to another folder of the bucket, within S3: those with the names, or all. Those that are there are replaced."""

        def copy(name: str) -> None:
            with self._classified():
                source = {"Bucket": self.bucket, "Key": self._key(name)}
                self._client.copy_object(CopySource=source, Bucket=target.bucket, Key=target._key(name))

        if names is None:
            with self._classified():
                names = [key.removeprefix(self._key("")) for page in self._pages() for key in page]
        with ThreadPoolExecutor(_TRANSFERS) as transfers:
            list(transfers.map(copy, names))

    @contextmanager
    def reading(self, beside: Path) -> Iterator[Path]:
        with _temporary(beside) as folder:
            with self._classified():
                keys = [key for page in self._pages() for key in page if not key.endswith("/")]
            with ThreadPoolExecutor(_TRANSFERS) as transfers:
                list(transfers.map(lambda key: self._download(key, folder), keys))
            yield folder

    @contextmanager
    def writing(self, beside: Path) -> Iterator[Path]:
        with _temporary(beside) as folder:
            yield folder
            files = [path for path in folder.rglob("*") if path.is_file()]
            try:
                with ThreadPoolExecutor(_TRANSFERS) as transfers:
                    list(transfers.map(lambda path: self._upload(path, folder), files))
            except BaseException:
                with suppress(HeadraceError):
                    self.remove()
                raise

    def local(self) -> Path:
        raise UserError(
            SqlState.FEATURE_NOT_SUPPORTED,
            f"the checkpoints are in {self.uri}, and the query keeps files beside its checkpoint",
            hint="Run the query in a compute pool without 'compute_pool.checkpoints'.",
        )

    def _pages(self) -> Iterator[list[str]]:
        """Yield the keys of all objects, as many as one request can delete at a time."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=self._key(""), PaginationConfig={"PageSize": _KEYS_MAX}
        )
        for page in pages:
            if keys := [item["Key"] for item in page.get("Contents", ())]:
                yield keys

    def _download(self, key: str, folder: Path) -> None:
        """Download an object, unless it was deleted meanwhile: Spark deletes what later batches do not need."""
        target = folder / key.removeprefix(self._key(""))
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._classified(may_miss=True):
            content = self._client.get_object(Bucket=self.bucket, Key=key)["Body"]
            with target.open("wb") as file:
                shutil.copyfileobj(content, file)

    def _upload(self, file: Path, folder: Path) -> None:
        key = self._key(file.relative_to(folder).as_posix())
        with self._classified(), file.open("rb") as content:
            self._client.put_object(Bucket=self.bucket, Key=key, Body=content)

    def check(self) -> None:
        """Write, list, read and delete a file. Raises HeadraceError within a bounded time if the bucket does not allow that, or if it would
        replace a file that must not be replaced: two drivers of one query could then both commit a batch."""
        probe = self.at(f".probe-{uuid.uuid4().hex}")
        if not probe.create("file", "first"):
            raise _unsafe(self.uri, "refuses to write a new file with the condition If-None-Match")
        try:
            replaced = probe.create("file", "second")
            if replaced or probe.read("file") != b"first":
                raise _unsafe(self.uri, "replaces a file in spite of the condition If-None-Match")
            if probe.names("") != ["file"]:
                raise _unsafe(self.uri, "does not list a file that was written before")
        except HeadraceError:
            with suppress(HeadraceError):
                probe.remove()
            raise
        probe.remove()

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    @property
    def _client(self) -> Any:
        return _client(self.login)

    @contextmanager
    def _classified(self, *, may_miss: bool = False) -> Iterator[None]:
        """Translate botocore's errors. With `may_miss`, that of a missing object ends the block without an error."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError) as error:
            if may_miss and isinstance(error, ClientError) and _code(error) in ("NoSuchKey", "404"):
                return
            raise _failure(error, f"the bucket {self.bucket!r}") from None


@contextmanager
def _temporary(beside: Path) -> Iterator[Path]:
    beside.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=beside, prefix=".checkpoint-") as folder:
        yield Path(folder)


def folder_at(uri: str, login: Login) -> S3Folder:
    """Return the folder of a URI. Raises ValueError for one of another form."""
    match = _URI.fullmatch(uri)
    if match is None or ".." in match[1]:
        raise ValueError(uri)
    return S3Folder(login, match[1], match[2].lstrip("/"))


@cache
def driver_login() -> Login:
    """Return the login of a driver, and remove its secret from the environment, which other processes inherit."""
    login = Login.of(os.environ)
    os.environ.pop(f"{_VARIABLE}SECRET_ACCESS_KEY", None)
    return login


@cache
def _client(login: Login) -> Any:
    import boto3

    style = {"addressing_style": "virtual" if login.endpoint is None else "path"}
    keys = {"aws_access_key_id": login.key_id, "aws_secret_access_key": login.secret} if login.key_id else {}
    return boto3.Session(region_name=login.region).client(
        "s3", endpoint_url=login.endpoint, config=client_config(connections=_TRANSFERS, s3=style), **keys
    )


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _failure(error: Exception, bucket: str) -> HeadraceError:
    from botocore.exceptions import ClientError

    text = _code(error) if isinstance(error, ClientError) else type(error).__name__
    if "NotImplemented" in text:
        return _unsafe(bucket, "does not know the condition If-None-Match")
    kind = next((kind for kind in _REACTIONS if re.search(kind.pattern, text)), _UNREACHABLE)
    return kind.as_error(server=bucket)


def _unsafe(place: str, what: str) -> UserError:
    return UserError(
        _WRONG,
        f"{place} cannot keep checkpoints: it {what}",
        hint="Use S3 itself, or a service with conditional writes, such as MinIO.",
    )
