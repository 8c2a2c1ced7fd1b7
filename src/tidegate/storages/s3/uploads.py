"""Objects that are larger than one request: written in parts, copied in parts. They appear whole or not at all."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from tidegate.core.errors import Code, TidegateError
from tidegate.storages.s3.bucket import WRITER, S3Bucket, md5, new_token
from tidegate.storages.s3.errors import (
    S3_ERRORS,
    is_absent,
    is_passing,
    is_refused_list,
    is_taken,
    is_too_large_to_copy,
    is_without_upload,
)

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from types_boto3_s3.type_defs import CompletedPartTypeDef, ListMultipartUploadsOutputTypeDef
    from typing_extensions import Buffer

_LOG = logging.getLogger("tidegate")

PART_BYTES = 16 << 20
"""The size of a part. S3 takes 10,000 parts of one object: 160 GB."""

COPIED_PART_BYTES = 512 << 20
"""The size of a part that the server copies. One request copies at most 5 GB."""

_PARTS_AT_ONCE = 4


class Upload:
    """A new object, written from its begin to its end by one thread. Holds one part in memory beside those that are
    being sent: of all uploads of this process only some are at once.

    What fits one part is one conditional put. A larger one is an upload in parts, which are sent side by side. The
    answer to its completion proves nothing (a server may answer 200 and do nothing): the object is looked at.
    """

    def __init__(self, bucket: S3Bucket, key: str, doing: str, token: str | None = None) -> None:
        """`token`: of this writer, in the object's metadata; a new one if it is none."""
        self._bucket = bucket
        self._key = key
        self._doing = doing
        self._token = token or new_token()
        self._rest = bytearray()
        self._size_bytes = 0
        self._parts: _SentParts | None = None
        self._is_sent = False

    def write(self, data: Buffer, /) -> int:
        """Append `data`."""
        block = memoryview(data).cast("B")
        self._rest += block
        self._size_bytes += len(block)
        while len(self._rest) > PART_BYTES:
            self._begun().send(self._part)
        return len(block)

    def _part(self) -> bytes:
        """The first part of what is not sent yet, put aside."""
        part = bytes(memoryview(self._rest)[:PART_BYTES])
        del self._rest[:PART_BYTES]
        return part

    def end(self) -> bool:
        """Make the object appear. True if this upload has created it, False if another writer has taken its key."""
        self._is_sent = True
        if self._parts is None:
            return self._bucket.put_if_absent(self._key, bytes(self._rest), self._doing, self._token)
        self._parts.send(self._part)
        return _completed(
            self._bucket, self._key, self._doing, self._parts.upload, self._parts.all(), self._token, self._size_bytes
        )

    def abort(self) -> None:
        """Leave nothing of this upload: neither parts, nor an object that a lost answer hides."""
        if self._parts is not None:
            self._parts.end()
            abort(self._bucket, self._key, self._doing, self._parts.upload)
        if self._is_sent:
            found = self._bucket.look(self._key, self._doing)
            if found is not None and found.writer == self._token:
                self._bucket.delete(self._key, self._doing)

    def _begun(self) -> _SentParts:
        if self._parts is None:
            self._parts = _SentParts(
                self._bucket, self._key, self._doing, _begin(self._bucket, self._key, self._doing, self._token)
            )
        return self._parts


class _SentParts:
    """Sends parts side by side, a few at once."""

    def __init__(self, bucket: S3Bucket, key: str, doing: str, upload: str) -> None:
        self.upload = upload
        self._bucket = bucket
        self._key = key
        self._doing = doing
        self._threads = ThreadPoolExecutor(_PARTS_AT_ONCE, thread_name_prefix="tidegate-s3-upload")
        self._pending: deque[Future[CompletedPartTypeDef]] = deque()
        self._done: list[CompletedPartTypeDef] = []

    def send(self, next_part: Callable[[], bytes]) -> None:
        """Send the next part, which is put aside when there is room for it. Waits while several are on their way, of
        this upload or of all, and raises the error of an earlier one.
        """
        if len(self._pending) == _PARTS_AT_ONCE:
            self._done.append(self._pending.popleft().result())
        number, free = len(self._done) + len(self._pending) + 1, self._bucket.connected.free_parts
        free.acquire()
        try:
            sent = self._threads.submit(self._sent, number, next_part())
        except BaseException:
            free.release()
            raise
        sent.add_done_callback(lambda _: free.release())
        self._pending.append(sent)

    def all(self) -> list[CompletedPartTypeDef]:
        """All parts, when each has arrived."""
        while self._pending:
            self._done.append(self._pending.popleft().result())
        self._threads.shutdown()
        return self._done

    def end(self) -> None:
        """Nothing more is sent; returns when no part is on its way."""
        self._threads.shutdown(cancel_futures=True)

    def _sent(self, number: int, part: bytes) -> CompletedPartTypeDef:
        def send(client: S3Client) -> CompletedPartTypeDef:
            answer = client.upload_part(
                Bucket=self._bucket.name,
                Key=self._key,
                UploadId=self.upload,
                PartNumber=number,
                Body=part,
                ContentMD5=md5(part),
            )
            return {"ETag": answer["ETag"], "PartNumber": number}

        return self._bucket.ask(self._key, self._doing, send)


def copied(source: S3Bucket, key: str, target: S3Bucket, to: str, doing: str) -> bool:
    """Let the server copy an object. False if it is absent."""

    def copy(client: S3Client) -> bool:
        try:
            client.copy_object(Bucket=target.name, Key=to, CopySource={"Bucket": source.name, "Key": key})
        except S3_ERRORS as error:
            if is_absent(error):
                return False
            if is_too_large_to_copy(error):
                return copied_in_parts(source, key, target, to, doing)
            raise
        return True

    return target.ask(to, doing, copy)


def copied_in_parts(source: S3Bucket, key: str, target: S3Bucket, to: str, doing: str) -> bool:
    """The same for an object of any size, in several requests."""
    found = source.look(key, doing)
    if found is None:
        return False
    token = new_token()
    upload = _begin(target, to, doing, token)
    try:
        ranges = [
            (at, min(at + COPIED_PART_BYTES, found.size_bytes) - 1)
            for at in range(0, found.size_bytes, COPIED_PART_BYTES)
        ]
        with ThreadPoolExecutor(_PARTS_AT_ONCE, thread_name_prefix="tidegate-s3-copy") as threads:
            copy = _part_copier(source, key, target, to, doing, upload)
            parts = list(threads.map(copy, range(1, len(ranges) + 1), ranges))
        target.delete(to, doing)
        return _completed(target, to, doing, upload, parts, token, found.size_bytes)
    except BaseException:
        abort(target, to, doing, upload)
        raise


def _part_copier(
    source: S3Bucket, key: str, target: S3Bucket, to: str, doing: str, upload: str
) -> Callable[[int, tuple[int, int]], CompletedPartTypeDef]:
    def copy(number: int, part: tuple[int, int]) -> CompletedPartTypeDef:
        first, last = part
        answer = target.ask(
            to,
            doing,
            lambda client: client.upload_part_copy(
                Bucket=target.name,
                Key=to,
                UploadId=upload,
                PartNumber=number,
                CopySource={"Bucket": source.name, "Key": key},
                CopySourceRange=f"bytes={first}-{last}",
            ),
        )
        return {"ETag": answer["CopyPartResult"].get("ETag", ""), "PartNumber": number}

    return copy


def abort(bucket: S3Bucket, key: str, doing: str, upload: str) -> None:
    """Remove the parts of an upload; no error if there is none."""

    def abort(client: S3Client) -> None:
        try:
            client.abort_multipart_upload(Bucket=bucket.name, Key=key, UploadId=upload)
        except S3_ERRORS as error:
            if not (is_absent(error) or is_without_upload(error)):
                raise

    bucket.ask(key, doing, abort)


def abort_below(bucket: S3Bucket, prefix: str, doing: str) -> None:
    """Remove the parts of all uploads below a prefix, which killed writers have left."""
    for key, upload in uploads_below(bucket, prefix, doing):
        abort(bucket, key, doing, upload)


def uploads_below(bucket: S3Bucket, prefix: str, doing: str) -> list[tuple[str, str]]:
    """Key and id of all uploads below a prefix that are neither completed nor aborted.

    Empty, with a warning once in a process, if the store does not list them or these credentials may not see them: then
    a lifecycle rule has to remove what is left.
    """
    found: list[tuple[str, str]] = []
    key, upload = "", ""
    while True:
        try:
            answer = bucket.ask(prefix, doing, _page_of_uploads(bucket, prefix, key, upload))
        except TidegateError as error:
            if not is_refused_list(error.__cause__):
                raise
            _warn_of_uploads(bucket, error)
            return []
        found += [
            (each["Key"], each["UploadId"])
            for each in answer.get("Uploads", [])
            if "Key" in each and "UploadId" in each
        ]
        before = key, upload
        key, upload = answer.get("NextKeyMarker", ""), answer.get("NextUploadIdMarker", "")
        if not answer.get("IsTruncated", False) or (key, upload) == before:
            return found


def _page_of_uploads(
    bucket: S3Bucket, prefix: str, key: str, upload: str
) -> Callable[[S3Client], ListMultipartUploadsOutputTypeDef]:
    if not key:
        return lambda client: client.list_multipart_uploads(Bucket=bucket.name, Prefix=prefix)
    return lambda client: client.list_multipart_uploads(
        Bucket=bucket.name, Prefix=prefix, KeyMarker=key, UploadIdMarker=upload
    )


def _warn_of_uploads(bucket: S3Bucket, error: TidegateError) -> None:
    if bucket.connected.is_first(f"uploads of {bucket.name}"):
        _LOG.warning(
            "%s: uploads in parts that killed processes have left cannot be listed (%s), so their parts stay: give the"
            " right s3:ListBucketMultipartUploads, or set a lifecycle rule AbortIncompleteMultipartUpload",
            bucket.where(),
            error.found,
            extra={"event": "UploadsNotListed"},
        )


def _begin(bucket: S3Bucket, key: str, doing: str, token: str) -> str:
    answer = bucket.ask(
        key,
        doing,
        lambda client: client.create_multipart_upload(Bucket=bucket.name, Key=key, Metadata={WRITER: token}),
    )
    return answer["UploadId"]


def _completed(
    bucket: S3Bucket,
    key: str,
    doing: str,
    upload: str,
    parts: Sequence[CompletedPartTypeDef],
    token: str,
    size_bytes: int,
) -> bool:
    """Complete an upload. True if its object is there, False if another writer's is."""

    def complete(client: S3Client) -> None:
        try:
            client.complete_multipart_upload(
                Bucket=bucket.name, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
            )
        except S3_ERRORS as error:  # an upload that is gone: completed by a try whose answer was lost
            if not (is_taken(error) or is_without_upload(error)):
                raise

    found = bucket.look(key, doing)  # some servers ignore the condition of a completion
    if found is None:
        bucket.ask(key, doing, complete, is_passing)
        found = bucket.look(key, doing)
    if found is None:
        raise _unfinished(bucket.where(key), doing, size_bytes, "no object")
    if found.writer == token and found.size_bytes != size_bytes:
        raise _unfinished(bucket.where(key), doing, size_bytes, f"{found.size_bytes} bytes")
    return found.writer == token


def _unfinished(where: str, doing: str, size_bytes: int, found: str) -> TidegateError:
    return TidegateError(
        Code.STORAGE_UNUSABLE,
        expected=f"to {doing}: {size_bytes} bytes after the completion of an upload",
        found=found,
        where=where,
        next_step="start again; if it comes again, use a store whose uploads in parts can be relied on",
    )
