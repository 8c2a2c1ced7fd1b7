"""The logs of savepoints of jobs that are not on a disk: taken as segments, restored as pieces, joined with the job's.

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
from tidegate.checkpoints.ingest_standing import prepared_logs
from tidegate.core.errors import Code
from tidegate.savepoints import ingest_restore_elsewhere
from tidegate.savepoints.ingest_join import JoinedLog, SavedLog, demand_no_line_given_up, saved_part
from tidegate.savepoints.ingest_restore_elsewhere import (
    join_elsewhere,
    prepare_logs_elsewhere,
    settle_logs_elsewhere,
)
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage


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

    def moved_away(self, *lines: bytes, after: int = 0, job: str = "job", name: str = "there") -> SavedLog:
        """The log of a savepoint that the job has taken in another folder, where it has taken these lines in. `after`:
        how many of all lines there its epoch has.
        """
        before = self.root / f"{name}-before"
        end = PieceLog(self.ingest(job) / "lines").end
        bring_part_from(self.ingest(job) / "lines", self.position, before, WHERE)
        log = self.restored(name, join_elsewhere("lines", self.ingest(name), SavedLog(before, is_ours=True), WHERE))
        ends = [self.position, end, *(log.append([line]) for line in lines)]
        bring_part_from(self.ingest(name) / "lines", ends[after], self.root / f"{name}-saved", WHERE)
        return SavedLog(self.root / f"{name}-saved", is_ours=True)

    def restored(self, job: str, joined: JoinedLog, generation: int = 2) -> PieceLog:
        folder = Folder.of(self.root / job)
        prepare_logs_elsewhere(folder, generation, [joined])
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
    prepare_logs_elsewhere(other, 2, [joined], replaces=False)
    settle_logs_elsewhere(other, 1)
    log = PieceLog(other / INGEST / "lines")
    log.append([b"1"])
    assert read(log) == [b"1"]
    storage = open_storage(other / INGEST / "lines")
    assert (storage.list(""), storage.folders("")) == (["log", "owner"], [log.end.log])


def test_a_job_begins_with_a_savepoint_that_has_no_line_behind_its_epoch(world: World) -> None:
    joined = join_elsewhere("lines", world.ingest("other"), world.saved(begin=world.ends[-1], is_ours=False), WHERE)
    log = world.restored("other", joined)
    log.require(world.ends[-1], WHERE)
    log.append([b"6"])
    assert read(PieceLog(world.ingest("other") / "lines"), world.ends[-1]) == [b"6"]


# --- two logs are joined ------------------------------------------------------------------------------------


def test_a_job_that_comes_back_to_its_folder_has_the_lines_of_both_logs_once(world: World) -> None:
    """It was moved by a savepoint, and takes lines 6 and 7 in there. Here it was started once more, without a line."""
    there = world.moved_away(b"6", b"7")
    PieceLog(world.ingest() / "lines")
    joined = join_elsewhere("lines", world.ingest(), there, WHERE)
    assert (joined.is_in_place, joined.begin.offset, joined.end.line) == (False, 0, 7)
    log = world.restored("job", joined)
    assert read(log) == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    log.append([b"8"])
    assert read(PieceLog(world.ingest() / "lines"), world.position) == [b"4", b"5", b"6", b"7", b"8"]
    assert len(open_storage(world.ingest() / "lines").folders("")) == 1, "the older log is removed"


def test_the_lines_that_the_job_has_let_go_of_come_from_the_savepoint(world: World) -> None:
    saved = world.saved()
    PieceLog(world.ingest() / "lines", pieces_to_trim=1).trim(world.ends[3])
    world.arrive(b"6")
    joined = join_elsewhere("lines", world.ingest(), saved, WHERE)
    assert (joined.begin, joined.is_in_place) == (world.position, False)
    assert read(world.restored("job", joined), world.position) == [b"4", b"5", b"6"]


def test_a_source_that_has_another_uid_since_takes_its_log_along(world: World) -> None:
    """A source that has the older uid later begins a new log."""
    saved = world.saved()
    world.arrive(b"6")
    log = world.restored("job", join_elsewhere("renamed", world.ingest(), saved, WHERE))
    assert (log.begin.log, read(log, world.position)) == (world.position.log, [b"4", b"5", b"6"])
    again = PieceLog(world.ingest() / "lines")
    assert (again.begin.log != world.position.log, again.end.line) == (True, 0)
    assert len(open_storage(world.ingest() / "lines").folders("")) == 1


def test_two_sources_exchange_their_uids_and_their_logs(world: World) -> None:
    ends = [PieceLog(world.ingest() / "other").append([b"a"]), PieceLog(world.ingest() / "other").append([b"b"])]
    bring_part_from(world.ingest() / "other", ends[0], world.root / "saved-other", WHERE)
    both = [
        join_elsewhere("other", world.ingest(), world.saved(), WHERE),
        join_elsewhere("lines", world.ingest(), SavedLog(world.root / "saved-other", is_ours=True), WHERE),
    ]
    demand_no_line_given_up(both, WHERE)
    prepare_logs_elsewhere(world.job, 2, both)
    settle_logs_elsewhere(world.job, 2)
    assert read(PieceLog(world.ingest() / "other"), world.position) == [b"4", b"5"]
    assert read(PieceLog(world.ingest() / "lines"), ends[0]) == [b"b"]


@pytest.mark.parametrize("lines", [[], [b"a"]])
def test_a_log_with_lines_gives_way_to_that_of_another_source_only_if_a_source_takes_it(
    world: World, lines: list[bytes]
) -> None:
    """A source of the program has the uid that another one had, and is named as the one in the savepoint."""
    PieceLog(world.ingest() / "other").append(lines)
    joined = join_elsewhere("other", world.ingest(), world.saved(), WHERE)
    if not lines:
        demand_no_line_given_up([joined], WHERE)
        return
    error = error_of(lambda: demand_no_line_given_up([joined], WHERE))
    assert (error.catalogue_entry, "source other" in error.where) == (Code.INGEST_LOST, True)
    assert f"remove {world.ingest() / 'other'}" in error.next_step


def test_a_job_that_was_away_for_long_begins_with_the_lines_of_the_savepoint(world: World) -> None:
    there = world.moved_away(b"6", b"7", after=2)
    joined = join_elsewhere("lines", world.ingest(), there, WHERE)
    assert read(world.restored("job", joined), there_begin(there)) == [b"7"]


def test_lines_between_the_savepoint_and_the_log_that_are_gone_are_missed(world: World) -> None:
    saved = world.saved()
    for number in range(6, 9):
        world.arrive(b"%d" % number)
    log = PieceLog(world.ingest() / "lines", pieces_to_trim=1)
    log.trim(log.end)
    error = error_of(lambda: join_elsewhere("lines", world.ingest(), saved, WHERE))
    assert (error.catalogue_entry, "the oldest line that is kept" in error.found) == (Code.INGEST_LOST, True)


def test_logs_that_are_not_of_one_past_are_refused(world: World) -> None:
    saved = world.saved()
    error = error_of(lambda: join_elsewhere("lines", world.ingest(), SavedLog(saved.folder, is_ours=False), WHERE))
    assert (error.catalogue_entry, "another job's" in error.found) == (Code.INGEST_LOST, True)
    world.arrive(b"1", job="other")
    error = error_of(lambda: join_elsewhere("lines", world.ingest("other"), saved, WHERE))
    assert (error.catalogue_entry, "another job name" in error.next_step) == (Code.INGEST_LOST, True)


def test_a_log_that_went_on_in_another_folder_is_refused(world: World) -> None:
    """Its lines have the same positions as lines that are here, and are others."""
    there = world.moved_away(b"6", b"7")
    for line in (b"6", b"8"):
        world.arrive(line)
    error = error_of(lambda: join_elsewhere("lines", world.ingest(), there, WHERE))
    assert (error.catalogue_entry, "in another folder since" in error.found) == (Code.INGEST_LOST, True)


# --- a process that was paused ------------------------------------------------------------------------------


def test_a_driver_that_was_paused_appends_nothing_to_a_log_that_is_replaced(world: World) -> None:
    joined = join_elsewhere("lines", world.ingest(), world.moved_away(b"6"), WHERE)
    paused = PieceLog(world.ingest() / "lines")
    prepare_logs_elsewhere(world.job, 2, [joined])
    assert refused(lambda: paused.append([b"lost"])) is Code.LEASE_LOST
    late = PieceLog(world.ingest() / "lines")
    assert refused(lambda: late.append([b"lost"])) is Code.LEASE_LOST
    late = PieceLog(world.ingest() / "lines")
    settle_logs_elsewhere(world.job, 2)
    assert refused(lambda: late.append([b"lost"])) is Code.LEASE_LOST
    assert read(PieceLog(world.ingest() / "lines"), world.position) == [b"4", b"5", b"6"]


def test_rows_that_a_paused_driver_adds_while_a_restore_is_judged_stop_the_restore(world: World) -> None:
    there = world.moved_away(b"6")
    paused = PieceLog(world.ingest() / "lines")
    joined = join_elsewhere("lines", world.ingest(), there, WHERE)
    paused.append([b"of the paused one"])
    assert refused(lambda: prepare_logs_elsewhere(world.job, 2, [joined])) is Code.GENERATION_SEALED
    settle_logs_elsewhere(world.job, 1)
    assert read(PieceLog(world.ingest() / "lines"), world.ends[-1]) == [b"of the paused one"]


def test_a_start_that_was_paused_puts_no_older_log_in_the_place_of_a_newer_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two restores have each brought a log. The paused start is one of the first of them."""
    first = join_elsewhere("lines", world.ingest(), world.moved_away(b"6"), WHERE)
    prepare_logs_elsewhere(world.job, 2, [first])

    def paused(storage: Storage) -> dict[int, str]:
        found = prepared_logs(storage)
        monkeypatch.setattr(ingest_restore_elsewhere, "prepared_logs", prepared_logs)
        settle_logs_elsewhere(world.job, 2)
        second = join_elsewhere("lines", world.ingest(), world.moved_away(b"7", job="job", name="again"), WHERE)
        assert world.restored("job", second, generation=3).append([b"8"]).line == 8
        return found

    monkeypatch.setattr(ingest_restore_elsewhere, "prepared_logs", paused)
    settle_logs_elsewhere(world.job, 2)
    assert read(PieceLog(world.ingest() / "lines"), world.position) == [b"4", b"5", b"6", b"7", b"8"]


def there_begin(saved: SavedLog) -> IngestPosition:
    return saved_part(saved, WHERE).begin
