"""Tests a storage before a job relies on it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress

from tidegate.core.errors import Code, TidegateError
from tidegate.storages.storage import Storage


def check_storage(storage: Storage) -> TidegateError | None:
    """Test everything that `Storage` promises, on a scratch record in its root. Returns None if all tests pass."""
    name = f".check-{secrets.token_hex(4)}"
    try:
        for what, attempt, wanted in _trials(storage, name):
            found = attempt()
            if found != wanted:
                return _broken_promise(what, wanted, found, storage.where(name))
    except TidegateError as error:
        return error
    finally:
        with suppress(TidegateError):  # what prevents the removal was found by the trials
            storage.delete(name)
    return None


def _trials(storage: Storage, name: str) -> Iterator[tuple[str, Callable[[], object], object]]:
    yield "a first put", lambda: storage.put_if_absent(name, b"first"), True
    yield "a second put of the same name", lambda: storage.put_if_absent(name, b"second"), False
    yield "reading what was put", lambda: storage.read(name), b"first"
    yield "replacing it", lambda: storage.replace(name, b"third"), None
    yield "reading what replaced it", lambda: storage.read(name), b"third"
    yield "finding it in the list", lambda: name in storage.list(""), True
    yield "deleting it", lambda: storage.delete(name), None
    yield "reading what was deleted", lambda: storage.read(name), None
    yield "a put of the name that was deleted", lambda: storage.put_if_absent(name, b"fourth"), True


def _broken_promise(what: str, wanted: object, found: object, where: str) -> TidegateError:
    return TidegateError(
        Code.STORAGE_UNUSABLE,
        expected=f"{what} gives {wanted!r}",
        found=repr(found),
        where=where,
        next_step="choose a folder on a local file system with hard links, or in a store that honours conditional puts"
        " (checkpointing.dir)",
    )
