"""The end of a generation: a seal takes the place of its next decision, and a run that reads it stops."""

from __future__ import annotations

from typing import TypeVar

import pytest

from tidegate.core.effects import Get, List, PutIfAbsent, Recall, Steps
from tidegate.core.errors import TidegateError
from tidegate.core.finish import decide
from tidegate.core.ledger import DECIDED, Query, entry, read_decided
from tidegate.core.records import Sealed, encode
from tidegate.core.seal import find_seal, seal_generation
from tidegate.storages.storage import Storage
from tidegate.testing.memory_storage import Memory, MemoryStorage

ResultT = TypeVar("ResultT")
QUERY = Query(job="j", job_id="id", generation=1, uid="q", sources=("s",), sinks=())


def test_a_generation_that_has_not_begun_is_sealed_at_its_first_epoch() -> None:
    storage = MemoryStorage(Memory())
    assert run(storage, seal_generation(QUERY)) == -1
    assert run(storage, find_seal()) == Sealed(epoch=0)
    assert run(storage, seal_generation(QUERY)) == -1, "a second opener finds the seal"
    assert storage.list(DECIDED) == ["0"]


def test_a_seal_stops_a_run_that_would_decide_its_epoch() -> None:
    storage = MemoryStorage(Memory())
    storage.put_if_absent(entry(DECIDED, 0), encode(Sealed(epoch=0)))
    for steps in (read_decided(0), decide(QUERY, 0)):
        with pytest.raises(TidegateError) as raised:
            run(storage, steps)
        assert raised.value.code == "TG-GENERATION-SEALED"


def run(storage: Storage, steps: Steps[ResultT]) -> ResultT:
    result: object = None
    try:
        while True:
            match steps.send(result):
                case Get(name) | Recall(name):
                    result = storage.read(name)
                case List(folder):
                    result = storage.list(folder)
                case PutIfAbsent(name, data):
                    result = storage.put_if_absent(name, data)
                case effect:
                    raise AssertionError(f"{effect} is not needed here")
    except StopIteration as stop:
        return stop.value
