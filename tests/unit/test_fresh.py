"""A new, empty generation of a job: how it is opened, and what a kill on the way leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.killed_job import QUERY, KilledJob, numbers_of
from tests.support.saved_job import RECORD, write_job
from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.core.errors import TidegateError
from tidegate.core.failpoints import RESTORE_POINTS
from tidegate.core.ledger import START, entry
from tidegate.core.levels import Level
from tidegate.core.records import JobRecord, Run, Start, decode, encode
from tidegate.operate.place import open_job
from tidegate.savepoints.fresh import Fresh, Opening, open_empty, was_opened
from tidegate.savepoints.restored import goes_back
from tidegate.savepoints.settled import settle
from tidegate.settings.found import load_settings
from tidegate.spark.fresh import above_evidence, carry_out, fresh_target, wished
from tidegate.spark.given_up import GivenUp
from tidegate.spark.query_plan import QueryPlan
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder

RUN = Run(run=1, token="0a0b0c0d", host="here", process=1, since="now")
FRESH = Fresh("first")
OF_FRESH = ("recorded", "noted", "opened", "switched", "renamed")
STEPS = [point for point in RESTORE_POINTS if point.split(".")[1] in OF_FRESH]


class Killed(BaseException):
    """The process ends here."""


def opening(folder: Path, fatal: str = "") -> Opening:
    def reach(step: str) -> None:
        if step == fatal:
            raise Killed

    start = Start(job_id=RECORD.job_id, generation=2, first_epoch=0, sources=("in",), sinks=("out",))
    record = JobRecord(name="job", job_id=RECORD.job_id, generation=2)
    return Opening(
        job_folder=Folder.of(folder),
        record=record,
        older=record_of(folder),
        fresh=FRESH,
        starts={"query": start},
        run=RUN,
        reach=reach,
    )


@pytest.fixture
def job(tmp_path: Path) -> Path:
    write_job(tmp_path)
    LocalStorage(tmp_path).put_if_absent(JOB_RECORD, encode(RECORD))
    LocalStorage(tmp_path / "queries/query/g1").put_if_absent(entry("ledger/runs", 7), encode(RUN))
    return tmp_path


def record_of(job: Path) -> JobRecord:
    return decode(JobRecord, (job / JOB_RECORD).read_bytes(), JOB_RECORD)


def test_a_query_begins_with_its_start_and_nothing_else_behind_the_runs_before(job: Path) -> None:
    open_empty(opening(job))
    assert record_of(job).generation == 2
    (place,) = open_job(Folder.of(job)).queries()
    assert (place.start.generation, place.start.first_epoch) == (2, 0)
    assert LocalStorage(place.folder.local()).list("ledger/runs") == [entry("ledger/runs", 7).split("/")[-1]]
    assert not (place.folder / "spark").local().exists()
    assert LocalStorage(place.folder.local()).read(START) is not None
    assert goes_back(Folder.of(job), record_of(job), "query"), "its rows may come again"
    assert was_opened(Folder.of(job), record_of(job), FRESH)


@pytest.mark.parametrize("fatal", STEPS)
def test_killed_behind_any_step_a_start_finds_the_old_generation_or_the_new_one_whole(job: Path, fatal: str) -> None:
    with pytest.raises(Killed):
        open_empty(opening(job, fatal))
    settle(Folder.of(job))
    counts = fatal in ("restore.opened", "restore.switched", "restore.renamed")
    assert record_of(job).generation == (2 if counts else 1)
    (place,) = open_job(Folder.of(job)).queries()
    assert place.start.generation == (2 if counts else 1)
    assert was_opened(Folder.of(job), record_of(job), FRESH) == counts
    if not counts:  # the program is started again with the same wish
        open_empty(opening(job))
    assert record_of(job).generation == 2
    assert not list(job.glob("queries/query/.*"))


def test_a_query_that_the_program_has_no_more_goes(job: Path) -> None:
    LocalStorage(job / "queries/older/g1").put_if_absent(
        START, encode(Start(job_id=RECORD.job_id, generation=1, first_epoch=0, sources=("in",), sinks=("out",)))
    )
    open_empty(opening(job))
    assert [place.uid for place in open_job(Folder.of(job)).queries()] == ["query"]


def test_once_under_one_id(job: Path) -> None:
    first = fresh_target(FRESH, Folder.of(job), "job", record_of(job), Level.EXACTLY_ONCE)
    assert first is not None
    assert first.generation == 2
    open_empty(opening(job))
    assert fresh_target(FRESH, Folder.of(job), "job", record_of(job), Level.EXACTLY_ONCE) is None
    second = fresh_target(Fresh("second"), Folder.of(job), "job", record_of(job), Level.EXACTLY_ONCE)
    assert second is not None
    assert (second.job_id, second.generation) == (RECORD.job_id, 3)


def test_at_most_once_has_a_fresh_generation_at_every_start(job: Path) -> None:
    with pytest.raises(TidegateError) as caught:
        fresh_target(FRESH, Folder.of(job), "job", record_of(job), Level.AT_MOST_ONCE)
    assert caught.value.code == "TG-LEVEL-REFUSED"


def test_what_is_decided_and_cannot_be_finished_stands_against_it(tmp_path: Path) -> None:
    """The program has the query no more: nobody could commit what was decided in it."""
    killed = KilledJob(tmp_path)
    killed.prepare(0)
    killed.log(0)
    found = list(GivenUp(killed.place, [], goes_back=True, next_step="first").against(frozenset()))
    assert {(error.code, error.next_step) for error in found} == {("TG-RESTORE-PENDING", "first")}
    assert {error.where.split("sink ")[1] for error in found} == set(QUERY.sinks)


def test_what_is_decided_is_committed_before_the_new_generation_counts(tmp_path: Path) -> None:
    killed = KilledJob(tmp_path)
    killed.prepare(0)
    killed.log(0)
    killed.prepare(1)
    sinks = {"table": killed.table, "files": killed.files}
    query = replace(QUERY, generation=2)
    plan = QueryPlan(
        query=query,
        rows=cast(Any, None),
        begun_at=cast(Any, None),
        mode="append",
        sinks=sinks,
        folder=Folder.of(killed.folder / "queries/counts/g2"),
        store=cast(Any, None),
        conf={},
    )
    found = killed.place.record
    target = fresh_target(FRESH, Folder.of(killed.folder), "job", found, Level.EXACTLY_ONCE)
    assert target is not None
    carry_out(FRESH, target, found, Folder.of(killed.folder), [plan], load_settings({}), lambda _step: None)
    assert killed.in_table() == killed.in_files() == sorted(numbers_of(0))
    assert [place.start.generation for place in killed.place.queries()] == [2]
    assert above_evidence(target, [plan], Level.EXACTLY_ONCE).generation == 2


def test_the_command_is_stronger_than_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wished(None, "mine", "job") == Fresh("mine")
    with pytest.raises(TidegateError):
        wished("/saved", "mine", "job")
    monkeypatch.setenv("TIDEGATE_FRESH", '{"id":"of the command"}')
    assert wished("/saved", None, "job") == Fresh("of the command")
    assert wished(None, "mine", "job") == Fresh("of the command")
