"""The requests to one bucket: repeated while they fail for a moment, decided by a look, with tidegate's errors."""

from __future__ import annotations

import base64
import hashlib
import os
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from tidegate.storages.s3.connection import S3Connection, connection
from tidegate.storages.s3.errors import (
    S3_ERRORS,
    is_absent,
    is_folder_in_use,
    is_passing,
    is_taken,
    is_throttled,
    is_without_reason,
    s3_error,
)

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from types_boto3_s3.type_defs import GetObjectOutputTypeDef, ListObjectsV2OutputTypeDef

ResultT = TypeVar("ResultT")

WRITER: Final = "tidegate-writer"
"""The name of the token in an object's metadata: each conditional put has its own."""

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 5.0
_THROTTLED_PAUSE_SECONDS = 0.5
_REFUSED_AT_MOST = 5  # refusals of a put for an object that a look does not find: it may have been removed meanwhile
_DELETED_AT_ONCE = 1000  # the most that DeleteObjects takes


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object without its content. `written_at`: seconds since 1970 by the store's clock."""

    key: str
    size_bytes: int
    written_at: float
    writer: str = ""
    """The token of the conditional put that wrote it; "" if it was written otherwise, or comes from a list."""
    etag: str = ""
    """The store's version of the content."""


@dataclass(frozen=True, slots=True)
class Page:
    """All that is directly below a prefix: objects, and the prefixes up to the next `/`."""

    objects: Sequence[FoundObject]
    prefixes: Sequence[str]


class S3Bucket:
    """Threads share one. It may be used on both sides of a fork. `answer_seconds`: how long one request waits for its
    answer; None: as `connection` says.
    """

    def __init__(self, name: str, answer_seconds: float | None = None) -> None:
        self.name = name
        self._answer_seconds = answer_seconds
        self._process = os.getpid()
        self._connection: S3Connection | None = None

    def where(self, key: str = "") -> str:
        return f"s3://{self.name}/{key}"

    @property
    def connected(self) -> S3Connection:
        """The connection of this process."""
        if self._connection is None or self._process != os.getpid():
            self._process, self._connection = os.getpid(), connection(self._answer_seconds)
        return self._connection

    def ask(
        self,
        key: str,
        doing: str,
        act: Callable[[S3Client], ResultT],
        comes_again: Callable[[Exception], bool] = is_passing,
    ) -> ResultT:
        """The result of `act`, which is repeated as long as patience lasts for errors that pass.

        Raises errors of S3 as TidegateErrors with `doing` and the place of `key`; the error of S3 is their cause.
        """
        try:
            return self._repeated(act, comes_again)
        except S3_ERRORS as error:
            raise s3_error(error, self.where(key), doing) from error

    def _repeated(self, act: Callable[[S3Client], ResultT], comes_again: Callable[[Exception], bool]) -> ResultT:
        """The longest try is not counted: one request may be lost without a word, and its wait be all of the time."""
        connected = self.connected
        begun = time.monotonic()
        end, longest = begun + connected.patience_seconds, 0.0
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                result = act(connected.client)
            except S3_ERRORS as error:
                failed = time.monotonic()
                longest = max(longest, failed - begun)
                pause = max(pause, _THROTTLED_PAUSE_SECONDS if is_throttled(error) else 0.0)
                if not comes_again(error):
                    raise
                if failed + pause > end + longest:
                    connected.note_absence()
                    raise
            else:
                connected.note_answer()
                return result
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            begun = time.monotonic()

    # --- write -----------------------------------------------------------------------------------------------

    def put(self, key: str, data: bytes, doing: str) -> None:
        """Create or replace an object. A put whose answer is lost is repeated, with the same content."""
        digest = md5(data)
        self.ask(key, doing, lambda client: client.put_object(Bucket=self.name, Key=key, Body=data, ContentMD5=digest))

    def put_if_absent(self, key: str, data: bytes, doing: str, token: str | None = None) -> bool:
        """Create an object. True if this call has created it.

        After every answer but a success the object is looked at: its token says whose it is. A refusal may come from
        the first try of the same call, whose answer was lost.
        """
        writer = token or new_token()
        digest = md5(data)
        refused = 0

        def put(client: S3Client) -> bool:
            nonlocal refused
            try:
                client.put_object(
                    Bucket=self.name,
                    Key=key,
                    Body=data,
                    ContentMD5=digest,
                    IfNoneMatch="*",
                    Metadata={WRITER: writer},
                )
            except S3_ERRORS as error:
                if not (is_taken(error) or is_passing(error)):
                    raise
                found = self._head(client, key)
                if found is None:
                    refused += is_taken(error)
                    raise
                return found.writer == writer
            return True

        def comes_again(error: Exception) -> bool:
            return is_passing(error) or (is_taken(error) and refused < _REFUSED_AT_MOST)

        return self.ask(key, doing, put, comes_again)

    def delete(self, key: str, doing: str) -> None:
        """Remove an object; no error if it is absent, or if it is a folder with something in it, which stays."""

        def delete(client: S3Client) -> None:
            try:
                client.delete_object(Bucket=self.name, Key=key)
            except S3_ERRORS as error:
                if not is_folder_in_use(error):
                    raise

        self.ask(key, doing, delete)

    def delete_below(self, prefix: str, doing: str, is_concerned: Callable[[str], bool] = lambda _: True) -> None:
        """Remove all objects whose key begins with `prefix` and is concerned. Last come the folders between, which some
        stores keep: a folder with something in it stays.
        """
        folders: set[str] = set()
        keys: list[str] = []
        for found in self.below(prefix, doing):
            if not is_concerned(found.key):
                continue
            folders.update(_folders_of(found.key, prefix))
            if found.key.endswith("/"):  # the mark of a folder
                folders.add(found.key)
                continue
            keys.append(found.key)
            if len(keys) == _DELETED_AT_ONCE:
                self.delete_all(keys, doing)
                keys = []
        keys += sorted(folders, reverse=True)
        self.delete_all(keys, doing)

    def delete_all(self, keys: Sequence[str], doing: str) -> None:
        """Remove these objects, up to 1,000 with each request; no error for those that are absent."""
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            self._delete_at_once(keys[start : start + _DELETED_AT_ONCE], doing)

    def _delete_at_once(self, keys: Sequence[str], doing: str) -> None:

        def delete(client: S3Client) -> None:
            answer = client.delete_objects(
                Bucket=self.name, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True}
            )
            for each in answer.get("Errors", []):
                key = each.get("Key", "")
                error = _of_answer(each.get("Code", ""), f"{each.get('Message', '')} ({key})")
                # A store with folders may refuse to remove one: it is empty, and no name of a record.
                if not is_folder_in_use(error) and (not key.endswith("/") or is_passing(error)):
                    raise error

        self.ask(keys[0], doing, delete)

    # --- read ------------------------------------------------------------------------------------------------

    def read(self, key: str, doing: str) -> bytes | None:
        """The whole content; None if the object is absent."""

        def read(client: S3Client) -> bytes | None:
            try:
                return client.get_object(Bucket=self.name, Key=key)["Body"].read()
            except S3_ERRORS as error:
                if is_absent(error):
                    return None
                raise

        return self.ask(key, doing, read)

    def get(self, key: str, doing: str, **options: str) -> GetObjectOutputTypeDef | None:
        """The answer to a GetObject, its body unread; None if the object is absent."""

        def get(client: S3Client) -> GetObjectOutputTypeDef | None:
            try:
                return client.get_object(Bucket=self.name, Key=key, **options)  # pyright: ignore[reportArgumentType]
            except S3_ERRORS as error:
                if is_absent(error):
                    return None
                raise

        return self.ask(key, doing, get)

    def look(self, key: str, doing: str) -> FoundObject | None:
        """The object without its content; None if it is absent."""
        return self.ask(key, doing, lambda client: self._head(client, key))

    def _head(self, client: S3Client, key: str) -> FoundObject | None:
        try:
            answer = client.head_object(Bucket=self.name, Key=key)
        except S3_ERRORS as error:
            if is_absent(error):
                return None
            if is_without_reason(error):
                # The same request with a body in its answer, of a byte at most: it raises the reason.
                client.get_object(Bucket=self.name, Key=key, Range="bytes=0-0")["Body"].close()
            raise
        writer = answer.get("Metadata", {}).get(WRITER, "")
        return FoundObject(
            key, answer["ContentLength"], answer["LastModified"].timestamp(), writer, answer.get("ETag", "")
        )

    # --- list ------------------------------------------------------------------------------------------------

    def directly_below(self, prefix: str, doing: str) -> Page:
        """All objects and prefixes directly below `prefix`, which ends with `/` or is empty. Reads all pages."""
        objects: list[FoundObject] = []
        prefixes: list[str] = []
        for found, more in self._pages(prefix, "/", doing):
            objects += found
            prefixes += more
        return Page(objects, prefixes)

    def below(self, prefix: str, doing: str) -> Iterator[FoundObject]:
        """All objects whose key begins with `prefix`, page by page."""
        for found, _ in self._pages(prefix, "", doing):
            yield from found

    def _pages(self, prefix: str, delimiter: str, doing: str) -> Iterator[tuple[list[FoundObject], list[str]]]:
        token = ""
        while True:
            answer = self.ask(prefix, doing, self._page(prefix, delimiter, token))
            found = [
                FoundObject(each["Key"], each["Size"], each["LastModified"].timestamp())
                for each in answer.get("Contents", [])
                if "Key" in each and "Size" in each and "LastModified" in each
            ]
            yield found, [each["Prefix"] for each in answer.get("CommonPrefixes", []) if "Prefix" in each]
            token = answer.get("NextContinuationToken", "")
            if not answer.get("IsTruncated", False) or not token:
                return

    def _page(self, prefix: str, delimiter: str, token: str) -> Callable[[S3Client], ListObjectsV2OutputTypeDef]:
        if token:
            return lambda client: client.list_objects_v2(
                Bucket=self.name, Prefix=prefix, Delimiter=delimiter, ContinuationToken=token
            )
        return lambda client: client.list_objects_v2(Bucket=self.name, Prefix=prefix, Delimiter=delimiter)


def _folders_of(key: str, prefix: str) -> Iterator[str]:
    """The folders of an object, with their `/`, from `prefix` down."""
    at = len(prefix) if prefix.endswith("/") else key.find("/", len(prefix)) + 1
    while at > 0:
        yield key[:at]
        at = key.find("/", at) + 1


def md5(data: bytes | memoryview) -> str:
    """The header by which the server refuses a body that was altered on its way."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def new_token() -> str:
    """The token of one conditional put."""
    return secrets.token_hex(16)


def _of_answer(code: str, message: str) -> Exception:
    """An error for one object in an answer that is a success as a whole."""
    from botocore.exceptions import ClientError

    status = 503 if code == "SlowDown" else 500 if code == "InternalError" else 200
    return ClientError(
        {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}},  # pyright: ignore[reportArgumentType]
        "DeleteObjects",
    )
