"""Runs the parts of the protocol that only read records, on a storage. No job has to run."""

from __future__ import annotations

from typing import TypeVar

from tidegate.core import effects as fx
from tidegate.storages.storage import Storage

ResultT = TypeVar("ResultT")


def read_only(storage: Storage, steps: fx.Steps[ResultT]) -> ResultT:
    """Run `steps` on the records in `storage`. Raises RuntimeError for an effect that is no read."""
    result: object = None
    try:
        while True:
            match steps.send(result):
                case fx.Get(name) | fx.Peek(name) | fx.Recall(name):
                    result = storage.read(name)
                case fx.List(folder):
                    result = storage.list(folder)
                case effect:
                    raise RuntimeError(f"{effect} is not a read")
    except StopIteration as stop:
        return stop.value
    finally:
        steps.close()
