"""The logs of savepoints of jobs that are not on a disk: taken as segments, restored as pieces, and never mixed.

The pieces are on a disk here, where no job has them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.ingest_contract import WHERE, error_of, read, refused
from tidegate.checkpoints.ingest_layout import INGEST, IngestPosition
from tidegate.checkpoints.ingest_part import bring_part_from
from tidegate.checkpoints.ingest_pieces import PieceLog
from tidegate.checkpoints.ingest_read import read_slice, slices
from tidegate.checkpoints.ingest_segments import SegmentLog
from tidegate.core.errors import Code
from tidegate.savepoints.ingest_restore import JoinedLog, SavedLog
from tidegate.savepoints.ingest_restore_elsewhere import (
    join_elsewhere,
    prepare_log_elsewhere,
    settle_logs_elsewhere,
)
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


class World:
    """A job with lines 1 to 3 in a done epoch, and 4 and 5 behind it. Its log was opened anew after each line."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.job = Folder.of(root / "job")
        self.ends = [self.arrive(b"%d" % number) for number in range(1, 6)]
        self.position = self.ends[2]

    def arrive(self, line: bytes, job: str = "job") -> IngestPosition:
        return PieceLog(self.ingest(job) / "lines").append([line])

    def ingest(self, job: str = "job") -> Folder:
        return Folder.of(self.root / job) / INGEST

    def saved(self, *, is_ours: bool = True, begin: IngestPosition | None = None, name: str = "saved") -> SavedLog:
        into = self.root / name
        if not into.exists():
            bring_part_from(self.ingest() / "lines", begin or self.position, into, WHERE)
        return SavedLog(into, is_ours)

    def restored(self, job: str, joined: JoinedLog, generation: int = 2) -> PieceLog:
        folder = Folder.of(self.root / job)
        prepare_log_elsewhere(folder, generation, joined)
        settle_logs_elsewhere(folder, generation)
        return PieceLog(folder / INGEST / joined.source)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_savepoint_has_the_lines_behind_its_epoch_as_segments_that_a_disk_goes_on_with(world: World) -> None:
    folder = world.saved().folder
    world.arrive(b"later")
    log = SegmentLog(folder)
    frame = log.last_frame()
    log.append([b"6"])
    end = log.end
    log.close()
    assert frame is not None
    assert frame.lines() == [b"5"]
    parts = slices(folder, world.position, end, WHERE)
    assert [line for part in parts for each in part.frames() for line in each.lines()] == [b"4", b"5", b"6"]
    assert any(not each.rows for part in parts for each in read_slice(part)), "an opening left its frame there"


def test_a_savepoint_without_lines_behind_its_epoch_has_the_position(world: World) -> None:
    log = SegmentLog(world.saved(begin=world.ends[-1]).folder)
    assert (log.begin, log.end) == (world.ends[-1], world.ends[-1])
    log.close()


def test_a_part_whose_lines_were_trimmed_is_refused(world: World) -> None:
    PieceLog(world.ingest() / "lines", pieces_to_trim=1).trim(world.ends[3])
    assert refused(lambda: world.saved()) is Code.INGEST_LOST
    assert refused(lambda: bring_part_from(world.ingest() / "no", world.position, world.root / "no", WHERE)) is (
        Code.INGEST_LOST
    )


def test_a_job_that_goes_back_in_its_own_folder_keeps_its_log_with_the_newer_lines(world: World) -> None:
    saved = world.saved()
    newest = world.arrive(b"6")
    joined = join_elsewhere("lines", world.ingest(), saved, WHERE)
    assert (joined.is_in_place, joined.end) == (True, newest)
    log = world.restored("job", joined)
    assert read(log, world.position) == [b"4", b"5", b"6"]


def test_another_job_begins_with_the_lines_of_the_savepoint(world: World) -> None:
    joined = join_elsewhere("lines", world.ingest("other"), world.saved(is_ours=False), WHERE)
    assert (joined.begin, joined.end, joined.is_in_place) == (world.position, world.ends[-1], False)
    log = world.restored("other", joined)
    assert (log.begin, log.end) == (world.position, world.ends[-1])
    log.append([b"6"])
    assert read(log, world.position) == [b"4", b"5", b"6"]
    assert read(PieceLog(world.ingest("other") / "lines"), world.position) == [b"4", b"5", b"6"]


def test_a_job_whose_log_has_no_line_yet_begins_with_those_of_the_savepoint(world: World) -> None:
    unbegun = PieceLog(world.ingest("other") / "lines")
    joined = join_elsewhere("lines", world.ingest("other"), world.saved(is_ours=False), WHERE)
    log = world.restored("other", joined)
    assert read(log, world.position) == [b"4", b"5"]
    assert refused(lambda: unbegun.append([b"lost"])) is Code.LEASE_LOST
    PieceLog(world.ingest("other") / "lines")
    names = open_storage(world.ingest("other") / "lines").folders("")
    assert names == [f"{world.position.log}-g2"], "the log that it was is removed"


def test_a_source_without_a_saved_position_keeps_the_log_or_begins_one(world: World) -> None:
    assert join_elsewhere("lines", world.ingest(), None, WHERE).is_in_place
    joined = join_elsewhere("lines", world.ingest("other"), None, WHERE)
    log = world.restored("other", joined)
    assert log.begin == log.end == joined.begin


def test_a_log_that_was_prepared_for_a_generation_that_never_counted_is_removed(world: World) -> None:
    other = Folder.of(world.root / "other")
    joined = join_elsewhere("lines", other / INGEST, world.saved(is_ours=False), WHERE)
    prepare_log_elsewhere(other, 2, joined)
    settle_logs_elsewhere(other, 1)
    log = PieceLog(other / INGEST / "lines")
    log.append([b"1"])
    assert read(log) == [b"1"]
    storage = open_storage(other / INGEST / "lines")
    assert (storage.list(""), storage.folders("")) == (["log", "owner"], [log.end.log])


def test_logs_that_are_not_of_one_past_are_refused(world: World) -> None:
    saved = world.saved()
    error = error_of(lambda: join_elsewhere("lines", world.ingest(), SavedLog(saved.folder, is_ours=False), WHERE))
    assert (error.catalogue_entry, "another job's" in error.found) == (Code.INGEST_LOST, True)
    world.arrive(b"1", job="other")
    error = error_of(lambda: join_elsewhere("lines", world.ingest("other"), saved, WHERE))
    assert (error.catalogue_entry, "another job name" in error.next_step) == (Code.INGEST_LOST, True)
    error = error_of(lambda: join_elsewhere("renamed", world.ingest(), saved, WHERE))
    assert (error.catalogue_entry, "source lines" in error.expected) == (Code.INGEST_LOST, True)


def test_a_log_that_went_on_in_another_folder_is_refused(world: World) -> None:
    """Its lines have the same positions as lines that are here, and are others."""
    saved = world.saved(begin=world.ends[3])
    elsewhere = world.restored("other", join_elsewhere("lines", world.ingest("other"), saved, WHERE))
    for line in (b"6", b"7"):
        elsewhere.append([line])
        world.arrive(line.replace(b"7", b"8"))
    bring_part_from(world.ingest("other") / "lines", world.ends[3], world.root / "fork", WHERE)
    fork = SavedLog(world.root / "fork", is_ours=True)
    error = error_of(lambda: join_elsewhere("lines", world.ingest(), fork, WHERE))
    assert (error.catalogue_entry, "in another folder since" in error.found) == (Code.INGEST_LOST, True)


def test_a_log_that_lacks_lines_of_the_savepoint_is_refused(world: World) -> None:
    saved = world.saved()
    PieceLog(world.ingest() / "lines", pieces_to_trim=1).trim(world.ends[3])
    error = error_of(lambda: join_elsewhere("lines", world.ingest(), saved, WHERE))
    assert (error.catalogue_entry, "a log from line 4" in error.found) == (Code.INGEST_LOST, True)
