"""Counts the requests that this process sends to a storage: by kind, and by the name of what they are for.

S3: every HTTP request of the client, each try of it. HDFS: every operation on a file or a folder that the client is
asked for; the calls that make up a write (create, block, sync, close, rename) are one. Both beside Spark's own.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from tidegate.storages.storage import Storage

_NUMBER = re.compile(r"(?<=/)\d+(?=/|\.|$)")


class Counted:
    """What was counted, in its order."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def add(self, kind: str, path: str) -> None:
        with self._lock:
            self.seen.append((kind, path))

    def now(self) -> int:
        """A moment, for `between`."""
        return len(self.seen)

    def between(self, begin: int, end: int) -> dict[str, int]:
        """The requests between two moments, by kind and path."""
        return dict(Counter(f"{kind} {_generalised(path)}" for kind, path in self.seen[begin:end]).most_common())

    def between_records(self, folder: str, first: int, last: int) -> dict[str, int]:
        """The requests after the put of one numbered record, up to the put of another one."""
        begin, end = (self._put_of(f"{folder}/{number}") for number in (first, last))
        return self.between(begin + 1, end + 1)

    def _put_of(self, name: str) -> int:
        return next(at for at, (kind, path) in enumerate(self.seen) if kind == "put" and path.endswith(f"/{name}"))


def _generalised(path: str) -> str:
    """A path below the job's folder, with N for numbers."""
    return _NUMBER.sub("N", "/" + path.partition("/words/")[2]).removeprefix("/queries/counts/gN/")


@contextmanager
def counting(counted: Counted) -> Generator[None]:
    """Count the requests of this process to S3 and to HDFS inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        _count_s3(counted, patch)
        _count_hdfs(counted, patch)
        yield


def counted_storage(storage: Storage, counted: Counted) -> Storage:
    """The same storage, with each call counted that would be a request."""
    return cast("Storage", _CountedStorage(storage, counted))


class _CountedStorage:
    def __init__(self, storage: Storage, counted: Counted) -> None:
        self._storage = storage
        self._counted = counted

    def below(self, folder: str) -> Storage:
        return counted_storage(self._storage.below(folder), self._counted)

    def where(self, name: str = "") -> str:
        return self._storage.where(name)

    def __getattr__(self, call: str) -> Callable[..., Any]:
        act: Callable[..., Any] = getattr(self._storage, call)

        @wraps(act)
        def counted_act(*arguments: Any, **options: Any) -> Any:
            name = arguments[0] if isinstance(arguments[0], str) else next(iter(arguments[0]))
            self._counted.add(_KINDS.get(call, call), self._storage.where(name))
            return act(*arguments, **options)

        return counted_act


_KINDS = {
    "put_if_absent": "put",
    "replace": "put",
    "note": "put",
    "peek": "read",
    "peek_names": "list",
    "folders": "list",
}


def _count_s3(counted: Counted, patch: pytest.MonkeyPatch) -> None:
    from botocore.httpsession import URLLib3Session

    send: Callable[..., Any] = URLLib3Session.send

    def counted_send(self: URLLib3Session, request: Any) -> Any:
        url = urlsplit(request.url)
        counted.add(*_of_s3(request.method, url.path, parse_qs(url.query, keep_blank_values=True)))
        return send(self, request)

    patch.setattr(URLLib3Session, "send", counted_send)


def _of_s3(method: str, path: str, query: dict[str, list[str]]) -> tuple[str, str]:
    """The kind of a request, and the key that it is for."""
    bucket = path.split("/")[1] if path.count("/") > 1 else path
    if "list-type" in query:
        return "list", f"{bucket}/{query.get('prefix', [''])[0]}"
    kinds = {"GET": "read", "HEAD": "look", "PUT": "put", "DELETE": "delete", "POST": "delete many"}
    return kinds.get(method, method), path


def _count_hdfs(counted: Counted, patch: pytest.MonkeyPatch) -> None:
    from tidegate.storages.hdfs import publish, storage
    from tidegate.storages.hdfs.client import HdfsClient

    for module, name, kind in (
        (storage, "put", "put"),
        (storage, "replace", "put"),
        (publish, "put", "put"),
        (HdfsClient, "read", "read"),
        (HdfsClient, "status", "look"),
        (HdfsClient, "children", "list"),
        (HdfsClient, "delete", "delete"),
        (HdfsClient, "log_edit", "log edit"),
    ):
        _count_calls(counted, patch, module, name, kind)


def _count_calls(counted: Counted, patch: pytest.MonkeyPatch, where: Any, name: str, kind: str) -> None:
    act: Callable[..., Any] = getattr(where, name)

    @wraps(act)
    def counted_act(client: Any, path: str, *arguments: Any, **options: Any) -> Any:
        counted.add(kind, path)
        return act(client, path, *arguments, **options)

    patch.setattr(where, name, counted_act)
