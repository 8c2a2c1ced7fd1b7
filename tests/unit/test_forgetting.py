"""`tidegate forget`: the checkpoints of a job that does not run go, and what its sinks keep of it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.jobs.folders import a_supervisor, another_driver
from tests.support.command import tidegate
from tests.support.killed_forgetting import Killed, kill_before
from tests.support.killed_job import QUERY, KilledJob, numbers_of
from tidegate.core.errors import TidegateError
from tidegate.core.records import Position, SinkIdentity
from tidegate.core.recover import judge_position
from tidegate.operate.forgetting import Clearance, forget, forget_evidence, look_before
from tidegate.operate.sinks import SINKS
from tidegate.sinks.files.sink import FileSink
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder


class OwnSink(SQLiteSink):
    """Of what a subclass has changed nothing stands in the job's folder."""


def committed_job(folder: Path, *, through: int = 2) -> KilledJob:
    """Epoch 0 is visible and proven in both sinks, epoch 1 is decided and waits, epoch 2 is prepared."""
    job = KilledJob(folder)
    committables = job.prepare(0)
    job.log(0)
    job.decide(0)
    for sink in (job.table, job.files):
        sink.commit([each for each in committables if each.attempt.sink.sink == sink.uid])
    if through >= 1:
        job.prepare(1)
        job.log(1)
        job.decide(1)
    if through >= 2:
        job.prepare(2)
    return job


def test_checkpoints_evidence_and_stages_go_and_the_rows_stay(tmp_path: Path) -> None:
    job = committed_job(tmp_path)
    for name in ("checkpoints/7", "restores", "ingest/lines", "history/failures"):
        (job.folder / name).mkdir(parents=True)
        (job.folder / name / "file").touch()
    found = forget(Folder.of(job.folder))
    assert (found.job, found.job_id, found.left) == ("job", QUERY.job_id, ())
    assert is_forgotten(job)
    assert sorted(path.name for path in job.folder.iterdir()) == ["history", "locks", SINKS]
    assert job.in_table() == sorted(numbers_of(0))
    assert job.in_files() == sorted(numbers_of(0))


def test_killed_before_any_step_a_second_call_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = 0
    while True:
        job = committed_job(tmp_path / str(killed), through=0)
        with monkeypatch.context() as patched:
            passed = kill_before(patched, killed, SQLiteSink, FileSink)
            try:
                forget(Folder.of(job.folder))
            except Killed:
                pass
            else:
                assert is_forgotten(job)
                break
        untouched = (job.folder / "job.json").exists() and not (job.folder / "closing").exists()
        assert untouched == (passed[-1] == "put_if_absent"), f"before {passed[-1]} nothing has changed"
        if passed[-1] == "put_if_absent":
            assert job.table.position(QUERY.sink("table")) is not None
        if (job.folder / "closing").exists() or untouched:
            forget(Folder.of(job.folder))
        assert is_forgotten(job), passed[-1]
        killed += 1
    assert killed >= 10


def is_forgotten(job: KilledJob) -> bool:
    """Whether a job of the same name could begin anew."""
    of_sinks = [sink.position(QUERY.sink(sink.uid)) is None for sink in (job.table, job.files)]
    folders = [(job.folder / name).exists() for name in ("job.json", "queries", "checkpoints", "closing")]
    staged = list((job.table.path.parent / "out").glob(".tidegate/staged/**/*.json"))
    return all(of_sinks) and not any(folders) and not staged


def test_a_job_that_lives_is_refused_and_its_holder_is_named(tmp_path: Path) -> None:
    job = committed_job(tmp_path)
    with another_driver(job.folder) as process:
        said = tidegate("forget", "job", "--dir", str(job.root), "--yes")
    assert (said.code, f"process {process} on" in said.stderr) == (4, True), said.stderr
    with a_supervisor(job.folder):
        said = tidegate("forget", "job", "--dir", str(job.root), "--yes")
    assert (said.code, "TG-SUPERVISOR-ALIVE" in said.stderr) == (4, True), said.stderr
    assert job.table.position(QUERY.sink("table")) is not None


def test_nothing_is_touched_where_a_sink_is_out_of_reach(tmp_path: Path) -> None:
    job = KilledJob(tmp_path, extra=OwnSink("files", tmp_path / "own.db", table="numbers"))
    with pytest.raises(TidegateError) as caught:
        forget(Folder.of(job.folder))
    assert caught.value.code == "TG-SINK-OUT-OF-REACH"
    assert "checkpointing.retention=delete" in caught.value.next_step
    assert (job.folder / "job.json").exists()
    assert not (job.folder / "closing").exists()


def test_a_sink_that_no_start_has_described_keeps_the_job(tmp_path: Path) -> None:
    job = committed_job(tmp_path)
    (job.folder / SINKS).unlink()
    with pytest.raises(TidegateError) as caught:
        forget(Folder.of(job.folder))
    assert caught.value.code == "TG-SINK-OUT-OF-REACH"
    assert (job.folder / "job.json").exists()


def test_before_it_asks_it_says_what_goes(tmp_path: Path) -> None:
    job = committed_job(tmp_path)
    found = look_before(Folder.of(job.folder))
    assert found == Clearance(
        job="job",
        job_id=QUERY.job_id,
        folder=str(job.folder),
        queries=("counts",),
        sinks=(f"counts/table: SQLite {job.table.path}, table numbers", f"counts/files: files in {tmp_path / 'out'}"),
        decided_rows=24,  # no record says that epoch 0 is done
        left=(),
    )


def test_the_command_asks_and_without_a_terminal_it_needs_yes(tmp_path: Path) -> None:
    job = committed_job(tmp_path)
    said = tidegate("forget", "job", "--dir", str(job.root))
    assert (said.code, "TG-REQUEST-REFUSED" in said.stderr, "--yes" in said.stderr) == (4, True, True)
    assert (job.folder / "job.json").exists()
    said = tidegate("forget", "job", "--dir", str(job.root), "--yes", "--json")
    assert said.code == 0, said.stderr
    assert json.loads(said.stdout) == {"job": "job", "job_id": QUERY.job_id, "outcome": "forgotten", "left": []}
    assert tidegate("forget", "job", "--dir", str(job.root), "--yes").code == 3


def test_the_command_goes_on_with_one_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = committed_job(tmp_path)
    delete = LocalStorage.delete

    def die_behind(storage: LocalStorage, name: str) -> None:
        delete(storage, name)
        if name == "job.json":
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "delete", die_behind)
        with pytest.raises(Killed):
            forget(Folder.of(job.folder))
    said = tidegate("forget", "job", "--dir", str(job.root), "--yes")
    assert (said.code, said.stdout) == (0, f"job is forgotten (id {QUERY.job_id})\n")
    assert is_forgotten(job)


def test_evidence_of_a_job_whose_folder_is_gone_goes_by_its_id(tmp_path: Path) -> None:
    """A new job has begun in the folder that was removed by hand, and found the evidence of the old one."""
    job = committed_job(tmp_path)
    older = {"job_id": "deadbeef", "generation": 3}
    with closing(sqlite3.connect(job.table.path)) as database, database:
        database.execute("UPDATE _tidegate_ledger SET job_id = 'deadbeef', generation = 3")
    identity = SinkIdentity(job="job", query="counts", sink="table", **older)  # pyright: ignore[reportArgumentType]
    assert forget_evidence(Folder.of(job.folder), "deadbeef").left == ()
    assert job.table.position(identity) is None
    assert job.files.position(QUERY.sink("files")) is not None, "it is of another id"
    assert (job.folder / "job.json").exists()


def test_the_jobs_own_id_is_not_one_whose_folder_is_gone(tmp_path: Path) -> None:
    job = committed_job(tmp_path)
    said = tidegate("forget", "job", "--dir", str(job.root), "--yes", "--evidence-of", QUERY.job_id)
    assert (said.code, "without --evidence-of" in said.stderr) == (4, True), said.stderr
    assert job.table.position(QUERY.sink("table")) is not None


def test_a_start_that_meets_the_evidence_names_the_command() -> None:
    ahead = judge_position(QUERY, "table", position(QUERY.job_id), None, -1)
    assert ahead is not None
    assert (ahead.code, "tidegate forget job" in ahead.next_step) == ("TG-SINK-AHEAD", True)
    other = judge_position(QUERY, "table", position("deadbeef"), None, -1)
    assert other is not None
    assert other.code == "TG-SINK-OF-ANOTHER-JOB"
    assert other.next_step.endswith("tidegate forget job --evidence-of deadbeef")


def position(job_id: str) -> Position:
    return Position(job_id=job_id, generation=1, epoch=6, digest="5d" * 32)
