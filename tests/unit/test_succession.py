"""Which generation counts, off a disk: an opener that was paused, and what it has prepared."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from tests.simulation.openers_memory import in_memory
from tidegate.checkpoints.ingest_pieces import PieceLog
from tidegate.checkpoints.ingest_segments import SegmentLog
from tidegate.checkpoints.ingest_standing import standing_log
from tidegate.checkpoints.retention import delete_checkpoints
from tidegate.checkpoints.succession import begin_job, end_preparation, give_up, open_next, reserve, standing
from tidegate.core.errors import TidegateError
from tidegate.core.ledger_names import PREPARED_START, START
from tidegate.core.records import GenerationOpened, JobRecord, encode
from tidegate.savepoints.ingest_join import SavedLog, fresh_log
from tidegate.savepoints.ingest_restore_elsewhere import join_elsewhere, prepare_logs_elsewhere
from tidegate.savepoints.settled import demand_starts, settle
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.supervise.job_folder import find_again
from tidegate.testing.memory_storage import Memory

FOLDER = Folder.of("s3://bucket/job")
FIRST = JobRecord(name="job", job_id="0f1e2d3c", generation=1)
SECOND = JobRecord(name="job", job_id="0f1e2d3c", generation=2)
THIRD = JobRecord(name="job", job_id="0f1e2d3c", generation=3)


@pytest.fixture(autouse=True)
def job() -> Generator[None]:
    with in_memory(Memory()):
        begin_job(FOLDER, FIRST)
        yield


def prepare(record: JobRecord) -> None:
    reserve(FOLDER, FIRST, record)
    open_storage(FOLDER / f"queries/query/g{record.generation}").put_if_absent(PREPARED_START, b"prepared")


def test_an_opener_whose_files_a_start_has_removed_goes_no_further() -> None:
    prepare(SECOND)
    settle(FOLDER)
    assert open_storage(FOLDER / "queries/query/g2").read(PREPARED_START) is None
    assert code_of(lambda: end_preparation(FOLDER, SECOND, ["query"])) == "TG-GENERATION-SEALED"
    assert standing(FOLDER) == FIRST


def test_a_supervisor_elsewhere_takes_a_forgotten_job_for_no_disk_that_is_not_mounted(tmp_path: Path) -> None:
    """Else it starts drivers for ever. The driver finds out, and refuses (`starting.demand_resumed`)."""
    delete_checkpoints(FOLDER, FIRST.job_id, lambda _: None)
    find_again(FOLDER)
    assert code_of(lambda: find_again(Folder.of(tmp_path))) == "TG-STORAGE-UNUSABLE"


def test_a_start_that_was_paused_removes_nothing_of_an_opener_that_is_ready() -> None:
    prepare(SECOND)
    end_preparation(FOLDER, SECOND, ["query"])
    assert not give_up(open_storage(FOLDER), 2)
    settle(FOLDER)
    open_next(FOLDER, FIRST, SECOND)
    settle(FOLDER)
    demand_starts(FOLDER, SECOND)
    assert open_storage(FOLDER / "queries/query/g2").read(START) == b"prepared"


def test_a_start_removes_no_ingest_log_of_an_opener_that_is_ready(tmp_path: Path) -> None:
    reserve(FOLDER, FIRST, SECOND)
    (part := tmp_path / "part").mkdir()
    with closing(SegmentLog(part)) as saved:
        end = saved.append([b"of the savepoint"])
    joined = join_elsewhere("lines", FOLDER / "ingest", SavedLog(part, is_ours=True), "test")
    prepare_logs_elsewhere(FOLDER, SECOND.generation, [joined])
    end_preparation(FOLDER, SECOND, [])
    settle(FOLDER)  # of a start that finds the first generation
    with pytest.raises(TidegateError) as raised:
        PieceLog(FOLDER / "ingest/lines").append([b"of that start"])
    assert raised.value.code == "TG-LEASE-LOST"
    open_next(FOLDER, FIRST, SECOND)
    settle(FOLDER)
    log = standing_log(FOLDER / "ingest/lines")
    assert log is not None
    assert log.end == end
    assert list(log.parts(log.begin, log.end, "test")[0].frames())


def test_a_start_removes_the_ingest_log_of_an_opener_that_is_not_ready() -> None:
    reserve(FOLDER, FIRST, SECOND)
    prepare_logs_elsewhere(FOLDER, SECOND.generation, [fresh_log("lines")])
    settle(FOLDER)
    PieceLog(FOLDER / "ingest/lines")
    assert code_of(lambda: end_preparation(FOLDER, SECOND, [])) == "TG-GENERATION-SEALED"


def test_what_a_slower_opener_has_prepared_is_removed() -> None:
    for record in (SECOND, THIRD):
        prepare(record)
        end_preparation(FOLDER, record, ["query"])
    open_next(FOLDER, FIRST, THIRD)
    assert code_of(lambda: open_next(FOLDER, FIRST, SECOND)) == "TG-GENERATION-SEALED"
    settle(FOLDER)
    assert open_storage(FOLDER / "queries/query").folders("") == ["g3"]


def test_a_generation_that_has_lost_the_start_it_was_opened_with_is_refused_by_name() -> None:
    prepare(SECOND)
    end_preparation(FOLDER, SECOND, ["query"])
    open_next(FOLDER, FIRST, SECOND)
    settle(FOLDER)
    for name in (PREPARED_START, START):
        demand_starts(FOLDER, SECOND)
        open_storage(FOLDER / "queries/query/g2").delete(name)
    with pytest.raises(TidegateError) as raised:
        demand_starts(FOLDER, SECOND)
    assert (raised.value.code, "queries/query/g2/ledger/start" in raised.value.where) == ("TG-RECORD-CORRUPT", True)


def code_of(act: object) -> str:
    assert callable(act)
    with pytest.raises(TidegateError) as raised:
        act()
    return raised.value.code


def test_a_generation_that_follows_itself_is_an_error_and_no_endless_search() -> None:
    led_back = GenerationOpened(job_id=FIRST.job_id, after=1, generation=1)
    open_storage(FOLDER).put_if_absent(f"generation/{FIRST.job_id}.2", encode(led_back))
    with pytest.raises(TidegateError, match="TG-RECORD-CORRUPT") as raised:
        standing(FOLDER)
    assert raised.value.expected == "a generation above 1, which it follows"
