"""A savepoint holds the part of an ingest log behind its epoch, and a restored log has each line once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.restored_job import restore, restoring
from tests.support.saved_job import RECORD, finish, query_folder, running, write_job
from tests.support.saving import code_of
from tidegate.checkpoints import ingest_piece
from tidegate.checkpoints.ingest_layout import IngestPosition, segments
from tidegate.checkpoints.ingest_part import bring_part_from, bring_parts
from tidegate.checkpoints.ingest_pieces import PieceLog
from tidegate.checkpoints.ingest_read import read_slice, slices
from tidegate.checkpoints.ingest_segments import SegmentLog
from tidegate.checkpoints.retained import QueryFolder, RetainedCheckpoints
from tidegate.core.errors import TidegateError
from tidegate.core.ledger import Query
from tidegate.core.records import DoneEpoch
from tidegate.savepoints import held as savepoint_held
from tidegate.savepoints.archive import export_stream, import_stream
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.folder import Savepoint, dispose, verify
from tidegate.savepoints.hold import RunningQuery, hold
from tidegate.savepoints.ingest_join import SavedLog
from tidegate.savepoints.ingest_restore import join
from tidegate.savepoints.restore import Restoring, prepare
from tidegate.savepoints.retained import as_savepoint, retained_in
from tidegate.savepoints.running_job import RunningJob
from tidegate.savepoints.settled import settle
from tidegate.savepoints.take import take
from tidegate.spark.sources.ingest import KeptInput, Trimmer
from tidegate.storages.schemes import Folder

QUERY = Query(job="job", job_id=RECORD.job_id, generation=1, uid="query", sources=("lines",), sinks=("out",))

WATCHERS: list[Callable[[str, tuple[object, ...]], None]] = []
sys.addaudithook(lambda event, args: [watch(event, args) for watch in WATCHERS] and None)


class World:
    """A job of one query that has read lines 1 to `read` of a durable socket; `behind` has those that came since."""

    def __init__(self, folder: Path, *, read: int = 3, behind: int = 2, segment_bytes: int = 1) -> None:
        self.folder = folder / "job"
        self.log = SegmentLog(self.folder / "ingest" / "lines", segment_bytes)
        self.arrived = 0
        self.arrive(read)
        self.position = self.log.end
        self.arrive(behind)
        write_job(self.folder)
        finish(self.folder, 4, msgspec.json.encode(self.position).decode())

    def arrive(self, lines: int) -> None:
        for _ in range(lines):
            self.arrived += 1
            self.log.append([b"%d" % self.arrived])

    def running(self, reach: Callable[[str], None] = lambda _step: None) -> RunningJob:
        job = running(self.folder, reach)
        return replace(job, queries=[replace(job.queries[0], query=QUERY)])

    def taken(self, name: str = "one") -> Savepoint:
        return take(self.running(), name, self.folder.parent / "saved")


def restoring_into(
    job: Path, savepoint: Savepoint, *, is_ours: bool = True, generation: int = 2, source: str = "lines"
) -> Restoring:
    saved = SavedLog(savepoint.folder / "ingest" / "lines", is_ours)
    joined = join(source, job / "ingest", saved, "source lines")
    return replace(restoring(job, savepoint, generation=generation), logs=(joined,))


def lines_behind(log: Path, position: IngestPosition) -> list[int]:
    """What a query reads that goes on from a position."""
    opened = SegmentLog(log)
    end = opened.end
    opened.close()
    found = [frame for piece in slices(log, position, end, "test") for frame in read_slice(piece)]
    return [int(line) for frame in found for line in frame.lines()]


@pytest.mark.parametrize("segment_bytes", [1, 100, 1 << 20])
def test_it_holds_what_arrived_behind_its_epoch_and_nothing_that_comes_later(tmp_path: Path, segment_bytes: int):
    world = World(tmp_path, read=5, behind=4, segment_bytes=segment_bytes)
    savepoint = world.taken()
    world.arrive(3)
    assert verify(savepoint) == []
    assert lines_behind(savepoint.folder / "ingest/lines", world.position) == [6, 7, 8, 9]
    assert segments(savepoint.folder / "ingest/lines")[0].begin == world.position
    assert not (world.folder / "savepoints-held").exists()


def test_lines_that_come_while_it_is_copied_are_not_in_it(tmp_path: Path):
    world = World(tmp_path, segment_bytes=1 << 20)
    savepoint = take(world.running(lambda step: world.arrive(1)), "one", tmp_path / "saved")
    assert verify(savepoint) == []
    assert lines_behind(savepoint.folder / "ingest/lines", world.position) == [4, 5]


def test_a_log_that_is_trimmed_between_the_queries_and_the_log_is_in_it_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The job runs on: more epochs are done while the files of the saved one are linked."""
    world = World(tmp_path)

    def hold_and_trim(query: RunningQuery, done: DoneEpoch, held: Folder, go_on: Callable[[], None]) -> bool:
        is_held = hold(query, done, held, go_on)
        world.log.trim(world.log.end)
        return is_held

    monkeypatch.setattr(savepoint_held, "hold", hold_and_trim)
    assert lines_behind(world.taken().folder / "ingest/lines", world.position) == [4, 5]


def test_it_is_called_off_before_the_next_segment_however_long_the_part_is(tmp_path: Path):
    world = World(tmp_path, behind=50)
    copying, seen = Copying("one"), list[Path]()

    def look(event: str, args: tuple[object, ...]) -> None:
        if event == "os.link" and "/ingest/" in str(args[1]):
            seen.append(Path(str(args[1])))
            copying.call_off("the job has ended")

    WATCHERS.append(look)
    try:
        assert code_of(lambda: take(world.running(), "one", tmp_path / "saved", copying)) == "TG-SAVEPOINT-CUT-OFF"
    finally:
        WATCHERS.remove(look)
    assert len(seen) == 1
    assert not (world.folder / "savepoints-held").exists()


def test_where_nothing_is_behind_the_epoch_the_place_is_held(tmp_path: Path):
    world = World(tmp_path, behind=0)
    savepoint = world.taken()
    (segment,) = segments(savepoint.folder / "ingest/lines")
    assert (segment.begin, segment.path.stat().st_size) == (world.position, 0)
    restore(restoring_into(tmp_path / "new", savepoint, generation=1))
    log = SegmentLog(tmp_path / "new/ingest/lines")
    assert log.append([b"4"]).line == 4
    log.close()
    assert lines_behind(tmp_path / "new/ingest/lines", world.position) == [4]


def test_an_altered_line_is_found_before_there_is_a_savepoint(tmp_path: Path):
    world = World(tmp_path, segment_bytes=1 << 20)
    (segment,) = segments(world.folder / "ingest/lines")
    data = bytearray(segment.path.read_bytes())
    data[world.position.offset + 42] ^= 1
    segment.path.write_bytes(data)
    assert code_of(world.taken) == "TG-RECORD-CORRUPT"
    assert not list((tmp_path / "saved").glob("*"))


def test_a_torn_end_of_a_job_that_was_killed_is_left_out(tmp_path: Path):
    world = World(tmp_path, segment_bytes=1 << 20)
    world.log.close()
    (segment,) = segments(world.folder / "ingest/lines")
    segment.path.write_bytes(segment.path.read_bytes() + b"TGL1 and half a frame")
    assert lines_behind(world.taken().folder / "ingest/lines", world.position) == [4, 5]


def test_a_missing_log_is_told(tmp_path: Path):
    world = World(tmp_path)
    world.log.close()
    (world.folder / "ingest/lines").rename(tmp_path / "away")
    assert code_of(world.taken) == "TG-INGEST-LOST"


def test_a_job_goes_back_in_its_own_folder_and_keeps_its_log(tmp_path: Path):
    world = World(tmp_path)
    savepoint = world.taken()
    world.arrive(2)
    world.log.close()
    restore(restoring_into(world.folder, savepoint))
    assert lines_behind(world.folder / "ingest/lines", world.position) == [4, 5, 6, 7]


def test_what_was_trimmed_since_comes_back_from_the_savepoint(tmp_path: Path):
    world = World(tmp_path, behind=4)
    savepoint = world.taken()
    world.arrive(2)
    world.log.trim(IngestPosition(world.position.log, segments(world.folder / "ingest/lines")[5].begin.offset, 5))
    world.log.close()
    assert segments(world.folder / "ingest/lines")[0].begin.line == 5
    restore(restoring_into(world.folder, savepoint))
    assert lines_behind(world.folder / "ingest/lines", world.position) == [4, 5, 6, 7, 8, 9]


def test_a_job_that_has_gone_on_elsewhere_comes_back_with_the_lines_of_there(tmp_path: Path):
    world = World(tmp_path)
    first = world.taken()
    world.log.close()
    restore(restoring_into(tmp_path / "moved/job", first, generation=2))
    moved = SegmentLog(tmp_path / "moved/job/ingest/lines")
    moved.append([b"6"])
    moved.close()
    back = SavedLog(tmp_path / "moved/job/ingest/lines", is_ours=True)
    joined = join("lines", world.folder / "ingest", back, "test")
    assert (joined.begin.line, joined.end.line, joined.is_in_place) == (0, 6, False)
    restore(replace(restoring(world.folder, first), logs=(joined,)))
    assert lines_behind(world.folder / "ingest/lines", world.position) == [4, 5, 6]


def test_under_another_uid_the_job_keeps_its_log_and_comes_back_with_it(tmp_path: Path):
    world = World(tmp_path)
    savepoint = world.taken()
    world.arrive(1)
    world.log.close()
    ingest = world.folder / "ingest"
    restore(restoring_into(world.folder, savepoint, source="renamed"))
    assert [path.name for path in ingest.iterdir()] == ["renamed"]
    log = SegmentLog(ingest / "renamed")
    log.append([b"7"])
    log.close()
    restore(restoring_into(world.folder, savepoint, generation=3))
    assert [path.name for path in ingest.iterdir()] == ["lines"]
    assert lines_behind(ingest / "lines", world.position) == [4, 5, 6, 7]


def test_lines_between_savepoint_and_log_are_missed(tmp_path: Path):
    world = World(tmp_path)
    savepoint = world.taken()
    world.arrive(4)
    world.log.trim(IngestPosition(world.position.log, segments(world.folder / "ingest/lines")[7].begin.offset, 7))
    assert code_of(lambda: restoring_into(world.folder, savepoint)) == "TG-INGEST-LOST"


def test_the_log_of_a_job_that_has_gone_on_apart_is_not_taken_for_its_own(tmp_path: Path):
    world = World(tmp_path)
    savepoint = world.taken()
    restore(restoring_into(tmp_path / "fork/job", savepoint, generation=1))
    fork = tmp_path / "fork/job/ingest/lines"
    apart = SegmentLog(fork)
    apart.append([b"60"])
    apart.close()
    world.arrive(1)
    later = world.taken("later")
    assert code_of(lambda: restoring_into(tmp_path / "fork/job", later)) == "TG-INGEST-LOST", "other lines"
    assert code_of(lambda: restoring_into(tmp_path / "fork/job", savepoint, is_ours=False)) == "TG-INGEST-LOST"
    assert lines_behind(fork, world.position) == [4, 5, 60]


def test_another_job_of_that_name_keeps_its_lines(tmp_path: Path):
    savepoint = World(tmp_path / "one").taken()
    other = World(tmp_path / "two")
    assert code_of(lambda: restoring_into(other.folder, savepoint)) == "TG-INGEST-LOST"


def test_a_log_that_was_only_begun_gives_way_to_the_savepoints(tmp_path: Path):
    world = World(tmp_path)
    SegmentLog(tmp_path / "new/ingest/lines").close()
    restore(restoring_into(tmp_path / "new", world.taken(), generation=1))
    assert lines_behind(tmp_path / "new/ingest/lines", world.position) == [4, 5]


def test_a_restore_that_was_not_finished_leaves_no_log(tmp_path: Path):
    world = World(tmp_path)
    wanted = restoring_into(tmp_path / "new", world.taken(), generation=1)
    prepare(wanted)
    settle(Folder.of(tmp_path / "new"))
    assert not (tmp_path / "new/ingest").exists()


def test_a_retained_checkpoint_has_the_lines_behind_it(tmp_path: Path):
    world = World(tmp_path)
    retained = RetainedCheckpoints(
        Folder.of(world.folder), "job", RECORD.job_id, [QueryFolder(QUERY, Folder.of(query_folder(world.folder)))], 1
    )
    retained.note("query")
    retained.write()
    world.arrive(1)
    world.log.close()
    folder, into = world.folder / "checkpoints/1", world.folder / "aside"
    into.mkdir()
    record = retained_in(Folder.of(folder))
    assert record is not None
    savepoint = as_savepoint(Folder.of(folder), record, into, Folder.of(world.folder))
    assert lines_behind(savepoint.folder / "ingest/lines", world.position) == [4, 5, 6]
    assert len({file.name for file in savepoint.record.files if file.name.startswith("ingest/")}) == 3


def test_the_log_is_not_trimmed_behind_a_retained_checkpoint_that_is_written_late(tmp_path: Path):
    """Manifests are written beside the epochs, which do not wait for them."""
    world = World(tmp_path)
    retained = RetainedCheckpoints(
        Folder.of(world.folder), "job", RECORD.job_id, [QueryFolder(QUERY, Folder.of(query_folder(world.folder)))], 1
    )
    retained.note("query")
    retained.write()
    log = world.folder / "ingest/lines"
    trimmer = Trimmer("reader", KeptInput(frozenset({"reader"}), epochs=1), world.log, Folder.of(log))
    world.arrive(3)
    trimmer.tell([msgspec.json.encode(world.log.end).decode()])
    assert segments(log)[0].begin.line == 3
    (world.folder / "checkpoints/1/_metadata.json").unlink()
    trimmer.tell([msgspec.json.encode(world.log.end).decode()])
    assert segments(log)[0].begin.line == 7


def test_no_line_is_trimmed_while_a_savepoint_collects_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In pieces no link keeps them. However slow the reads are, epochs that end meanwhile remove none."""
    folder = Folder.of(tmp_path / "job/ingest/lines")
    log = PieceLog(folder, pieces_to_trim=1)
    ends = [log.append([b"%d" % number]) for number in range(1, 10)]
    kept = KeptInput(frozenset({"reader"}), epochs=1)
    trimmer = Trimmer("reader", kept, log, folder)
    monkeypatch.setattr(ingest_piece, "_PIECES_AT_MOST", 1)

    def an_epoch_ends() -> None:
        trimmer.tell([msgspec.json.encode(ends[7]).decode()])

    with kept.all():
        bring_part_from(folder, ends[2], tmp_path / "held", "source lines", an_epoch_ends)
    assert lines_behind(tmp_path / "held", ends[2]) == [4, 5, 6, 7, 8, 9]
    with pytest.raises(TidegateError) as raised:
        bring_part_from(folder, ends[2], tmp_path / "not-held", "source lines", an_epoch_ends)
    assert raised.value.code == "TG-INGEST-LOST"


def test_a_savepoint_asks_the_sources_to_keep_their_input_before_it_looks_for_its_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: list[str] = []

    @contextmanager
    def keep() -> Generator[None]:
        seen.append("keep")
        yield
        seen.append("let go")

    def held(*given: Any) -> bool:
        seen.append("hold")
        return hold(*given)

    def brought(*given: Any) -> None:
        seen.append("bring")
        bring_parts(*given)

    monkeypatch.setattr(savepoint_held, "hold", held)
    monkeypatch.setattr(savepoint_held, "bring_parts", brought)
    take(replace(World(tmp_path).running(), keep_input=keep), "one", tmp_path / "saved")
    assert seen == ["keep", "hold", "bring", "let go"]


def test_it_goes_through_an_archive(tmp_path: Path):
    world = World(tmp_path)
    stream = BytesIO()
    export_stream(world.taken(), stream)
    stream.seek(0)
    imported = import_stream(stream, tmp_path / "elsewhere")
    assert verify(imported) == []
    restore(restoring_into(tmp_path / "new", imported, generation=1))
    assert lines_behind(tmp_path / "new/ingest/lines", world.position) == [4, 5]
    dispose(imported)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_file_of_the_part_that_was_altered_is_found_before_anything_is_changed(tmp_path: Path):
    savepoint = World(tmp_path).taken()
    first, *_ = segments(savepoint.folder / "ingest/lines")
    wanted = restoring_into(tmp_path / "new", savepoint, generation=1)
    first.path.write_bytes(first.path.read_bytes().replace(b"4", b"9"))
    assert [error.code for error in verify(savepoint)] == ["TG-SAVEPOINT-ALTERED"]
    assert code_of(lambda: restore(wanted)) == "TG-SAVEPOINT-ALTERED"
    settle(Folder.of(tmp_path / "new"))
    assert not (tmp_path / "new/ingest").exists()
