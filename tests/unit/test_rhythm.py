"""How often the processes of a job look into its folder, and what an idle minute costs where each look is a request."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.counted import Counted, counted_storage
from tests.unit.test_live_view import beat
from tidegate.operate import beat as beats
from tidegate.operate import control
from tidegate.operate.beat import Beat, write_beat
from tidegate.operate.beat_reader import BeatReader
from tidegate.operate.control import Desk
from tidegate.operate.rhythm import rhythm_of
from tidegate.storages.lease import LEASE_TIMEOUT_SECONDS
from tidegate.storages.schemes import Folder
from tidegate.storages.terms.lease import TermsLease
from tidegate.testing.memory_storage import Memory, MemoryStorage

REMOTE = Folder.of("s3://bucket/jobs/words")
AT_MOST_A_MINUTE = 30


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """What the job in `REMOTE` asks of its storage, which is in memory."""
    counted = Counted()
    storage = counted_storage(MemoryStorage(Memory()), counted)
    for module in (beats, control):
        monkeypatch.setattr(module, "open_storage", lambda _: storage)
    return counted


def test_an_idle_minute_costs_at_most_30_requests(counted: Counted) -> None:
    lease = TermsLease(counted_storage(MemoryStorage(Memory()), counted)).take("words", 0.0)
    desk, rhythm = Desk(REMOTE), rhythm_of(REMOTE)
    regular = {
        lease.renewal_seconds: lease.renew,
        rhythm.beat + 1e-9: lambda: write_beat(REMOTE, beat()),
        rhythm.desk: lambda: desk.open_requests(0.0),
        rhythm.watch: lambda: BeatReader(REMOTE).read(),
    }
    assert lease.renewal_seconds == LEASE_TIMEOUT_SECONDS / 3
    cost = 0.0
    for every_seconds, act in regular.items():
        before = counted.now()
        act()
        cost += (counted.now() - before) * 60 / every_seconds
    assert 25 < cost <= AT_MOST_A_MINUTE, counted.seen


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_a_beat_on_a_remote_storage_is_read_when_the_next_look_is_due(counted: Counted) -> None:
    clock, rhythm = Clock(), rhythm_of(REMOTE)
    reader = BeatReader(REMOTE, is_awaited, clock)
    assert (reader.read(), reader.read()) == (None, None)
    assert counted.now() == 1
    write_beat(REMOTE, of_process(1))
    clock.seconds += rhythm.request
    assert reader.read() == of_process(1)
    write_beat(REMOTE, of_process(2))
    clock.seconds += rhythm.request
    assert reader.read() == of_process(2), "the beat before was not the awaited one"
    write_beat(REMOTE, of_process(3))
    clock.seconds += rhythm.request
    assert reader.read() == of_process(2)
    assert reader.read_now() == of_process(3)
    clock.seconds += rhythm.watch
    write_beat(REMOTE, of_process(4))
    assert reader.read() == of_process(4)


def test_a_beat_on_a_disk_is_read_at_each_look(tmp_path: Path) -> None:
    reader = BeatReader(tmp_path, now=Clock())
    for number in (1, 2):
        write_beat(tmp_path, of_process(number))
        assert reader.read() == of_process(number)


def of_process(number: int) -> Beat:
    return msgspec.structs.replace(beat(), process=number)


def is_awaited(found: Beat) -> bool:
    return found.process != 1
