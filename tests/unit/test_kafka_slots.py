"""A transactional id is used by one process at a time, and again only when nothing that counts is open under it."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from tests.support.today import turn
from tidegate.core.records import SinkIdentity
from tidegate.sinks.kafka.slots import Use, take_slot

MINE = SinkIdentity(job="orders", job_id="5f0c", generation=1, query="by-day", sink="numbers")
NONE = frozenset[int]()


def _hold(pipe: Connection, root: Path) -> None:
    slot = take_slot(root, MINE, NONE)
    slot.note(0, Use(1, 7, 3))
    pipe.send((slot.place, slot.number))
    pipe.recv()


def test_a_slot_is_held_until_its_process_has_ended(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    mine, theirs = spawn.Pipe()
    child = spawn.Process(target=_hold, args=(theirs, tmp_path))
    child.start()
    assert mine.poll(60)
    place, number = mine.recv()
    assert number == 0
    beside = take_slot(tmp_path, MINE, NONE)
    assert (beside.place, beside.number) == (place, 1)
    child.kill()
    child.join()
    after = take_slot(tmp_path, MINE, frozenset({1}))
    assert (after.place, after.number) == (place, 0)
    assert after.used(0) == Use(1, 7, 3)


THOUSAND = """
import os, signal, sys
from pathlib import Path
from tidegate.core.records import SinkIdentity
from tidegate.sinks.kafka.slots import take_slot

mine = SinkIdentity(job="orders", job_id="5f0c", generation=1, query="by-day", sink="numbers")
seen = set()
for _ in range(250):
    executors = []
    for _ in range(4):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            slot = take_slot(Path(sys.argv[1]), mine, frozenset())
            os.write(write, f"{slot.place}.{slot.number}".encode())
            signal.pause()
        executors.append(child)
        seen.add(os.read(read, 100))
        os.close(read), os.close(write)
    for each in executors:
        os.kill(each, signal.SIGKILL)
        os.waitpid(each, 0)
print(len(seen))
"""


@turn(0, of=2)
def test_a_thousand_executors_of_one_host_use_as_many_slots_as_run_at_once(tmp_path: Path) -> None:
    """Each is a process that is killed. The folder of the host stays, so the next ones find its slots free."""
    command = [sys.executable, "-c", THOUSAND, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "4"
    assert len(list(tmp_path.glob("*/*/*"))) == 4


def test_a_turn_is_free_once_its_epoch_is_finished_or_a_newer_run_asks(tmp_path: Path) -> None:
    slot = take_slot(tmp_path, MINE, NONE)
    assert slot.is_free(0, Use(1, 7, 3), -1)
    slot.note(0, Use(1, 7, 3))
    assert not slot.is_free(0, Use(1, 7, 4), 2)
    assert slot.is_free(0, Use(1, 7, 4), 3)
    assert slot.is_free(0, Use(1, 8, 3), 2)
    assert slot.is_free(0, Use(2, 1, 0), -1)
    assert not slot.is_free(0, Use(1, 6, 9), 9 - 7)
    assert slot.is_free(1, Use(1, 7, 4), 2), "the other turn was never used"


def test_a_turn_of_a_newer_generation_is_not_free_for_an_older_one(tmp_path: Path) -> None:
    slot = take_slot(tmp_path, MINE, NONE)
    slot.note(0, Use(2, 9, 1))
    assert not slot.is_free(0, Use(1, 7, 5), 4)


def test_one_epoch_never_has_two_turns_of_a_slot(tmp_path: Path) -> None:
    slot = take_slot(tmp_path, MINE, NONE)
    slot.note(1, Use(1, 7, 3))
    assert slot.serves(Use(1, 7, 3))
    assert not slot.serves(Use(1, 7, 4))


def test_a_note_that_was_cut_off_is_none(tmp_path: Path) -> None:
    """Nothing was prepared then: a transaction counts as prepared only after its note is durable."""
    slot = take_slot(tmp_path, MINE, NONE)
    slot.note(0, Use(1, 7, 3))
    (file,) = tmp_path.glob("*/*/0")
    whole = file.read_bytes()
    for cut in range(len(whole)):
        with file.open("r+b") as torn:
            torn.truncate(cut)
        assert slot.used(0) is None
    file.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    assert slot.used(0) is None


def test_other_sinks_have_slots_of_their_own(tmp_path: Path) -> None:
    for number, other in enumerate(
        (MINE, SinkIdentity(job="orders", job_id="5f0c", generation=1, query="by", sink="day.numbers"))
    ):
        slot = take_slot(tmp_path, other, NONE)
        assert slot.number == 0
        slot.note(0, Use(1, 1, number))
    assert len(list(tmp_path.glob("*/*/0"))) == 2


def test_a_place_that_was_cut_off_or_copied_from_another_host_is_begun_anew(tmp_path: Path) -> None:
    """Two hosts with the same digits would use the same transactional ids, each under locks of its own."""
    first = take_slot(tmp_path, MINE, NONE).place
    whole = (tmp_path / "place").read_text()
    assert take_slot(tmp_path, MINE, frozenset({0})).place == first
    for flaw in ("", "zzzz", whole[:8], whole + "-other-boot"):
        (tmp_path / "place").write_text(flaw)
        again = take_slot(tmp_path, MINE, NONE).place
        assert again != first
        assert len(again) == 8


def test_a_slot_whose_file_was_removed_is_not_used_again(tmp_path: Path) -> None:
    """Clean-up of old temporary files: another process would lock a new file of that name."""
    slot = take_slot(tmp_path, MINE, NONE)
    assert slot.is_there()
    (file,) = tmp_path.glob("*/*/0")
    file.unlink()
    assert not slot.is_there()
    take_slot(tmp_path, MINE, NONE)
    assert not slot.is_there()
