"""An object of S3 that is read once, from its begin to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.storages.s3.errors import S3_ERRORS

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from types_boto3_s3.client import S3Client

    from tidegate.storages.s3.bucket import S3Bucket


class ObjectFile:
    """The content of an object. Where the connection breaks, the rest is asked for, and only of the same content."""

    def __init__(self, bucket: S3Bucket, key: str, doing: str, size_bytes: int, etag: str, body: StreamingBody) -> None:
        self.size_bytes = size_bytes
        self._bucket = bucket
        self._key = key
        self._doing = doing
        self._etag = etag
        self._body: StreamingBody | None = body
        self._at = 0

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the begin of `buffer`; 0 at the end of the object."""
        if self._at == self.size_bytes:
            return 0
        length = self._bucket.ask(self._key, self._doing, lambda client: self._read(client, buffer))
        self._at += length
        return length

    def _read(self, client: S3Client, buffer: memoryview) -> int:
        if self._body is None:
            rest = f"bytes={self._at}-"
            self._body = client.get_object(Bucket=self._bucket.name, Key=self._key, Range=rest, IfMatch=self._etag)[
                "Body"
            ]
        try:
            return self._body.readinto(buffer)  # pyright: ignore[reportArgumentType] (any writable buffer)
        except S3_ERRORS:
            self.close()
            raise

    def close(self) -> None:
        """Give up the connection. A second call does nothing."""
        body, self._body = self._body, None
        if body is not None:
            body.close()


def opened(bucket: S3Bucket, key: str, doing: str) -> ObjectFile | None:
    """The object, open for reading; None if it is absent."""
    answer = bucket.get(key, doing)
    if answer is None:
        return None
    return ObjectFile(bucket, key, doing, answer["ContentLength"], answer["ETag"], answer["Body"])
