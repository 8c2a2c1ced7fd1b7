"""Uploads in parts, without a server: how many parts are in memory at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tidegate.storages.s3 import uploads
from tidegate.storages.s3.bucket import S3Bucket
from tidegate.storages.s3.connection import PARTS_ON_THEIR_WAY, S3Connection

BOUND_SECONDS = 30.0
FILES = 6


class Slow:
    """A client that keeps the first parts until as many as may be sent at once are on their way."""

    def __init__(self) -> None:
        self.most = self._now = 0
        self._lock = threading.Lock()
        self._full = threading.Event()

    def create_multipart_upload(self, **_: object) -> dict[str, str]:
        return {"UploadId": "upload"}

    def upload_part(self, **_: object) -> dict[str, str]:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            if self._now >= PARTS_ON_THEIR_WAY:
                self._full.set()
        assert self._full.wait(BOUND_SECONDS)
        with self._lock:
            self._now -= 1
        return {"ETag": "part"}


class Bucket(S3Bucket):
    def __init__(self, client: Any) -> None:
        super().__init__("bucket")
        self._only = S3Connection(client, has_own_endpoint=True)

    @property
    def connected(self) -> S3Connection:
        return self._only

    def ask(self, key: str, doing: str, act: Callable[[Any], Any], comes_again: object = None) -> Any:
        return act(self._only.client)


def test_all_uploads_of_a_process_together_send_a_bounded_number_of_parts_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uploads, "PART_BYTES", 10)
    client = Slow()
    bucket = Bucket(client)

    def write(number: int) -> None:
        upload = uploads.Upload(bucket, f"key-{number}", "test")
        for _ in range(10):
            upload.write(b"0123456789")

    with ThreadPoolExecutor(FILES) as threads:
        list(threads.map(write, range(FILES)))
    assert client.most == PARTS_ON_THEIR_WAY


def test_parts_that_are_never_sent_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "PART_BYTES", 10)

    class Refusing(Slow):
        def upload_part(self, **_: object) -> dict[str, str]:
            raise LookupError

        def abort_multipart_upload(self, **_: object) -> None:
            pass

    bucket = Bucket(Refusing())
    upload = uploads.Upload(bucket, "key", "test")
    with pytest.raises(LookupError):
        upload.write(b"0123456789" * 10)
    upload.abort()
    assert all(bucket.connected.free_parts.acquire(blocking=False) for _ in range(PARTS_ON_THEIR_WAY))
