"""A job that was killed: what waits in it is listed, committed and aborted without its program."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.command import tidegate
from tests.support.killed_job import QUERY, KilledJob, numbers_of
from tidegate.cli.exits import Exit
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import COMMITS, START, entry, prepared_name
from tidegate.core.records import Committable, JobRecord, Start, encode
from tidegate.operate.settle import Ended, Ending, Order, settle
from tidegate.operate.sinks import SINKS
from tidegate.operate.transactions import Waiting, look, name_of
from tidegate.operate.verdicts import Act, Named, Seen, Verdict
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.storages.local.locks import acquire
from tidegate.storages.local.storage import LocalStorage
from tidegate.testing.memory import MemorySink


class Died(BaseException):
    """The command was killed here."""


def waiting(job: KilledJob) -> list[Waiting]:
    found = look(job.place, {})
    assert found.problems == []
    return found.waiting


def verdicts(job: KilledJob) -> set[tuple[int | None, Named, Seen, Verdict]]:
    return {(each.epoch, each.named, each.seen, each.verdict) for each in waiting(job)}


def end(job: KilledJob, act: Act, committable: Committable, **more: object) -> Ended:
    order = Order(act=act, name=name_of(committable), options={}, patience_seconds=0.2, **more)  # pyright: ignore[reportArgumentType]
    return settle(job.place, order)


def refusal(job: KilledJob, act: Act, committable: Committable, **more: object) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        end(job, act, committable, **more)
    return caught.value


def test_what_waits_is_listed_with_everything_that_is_known_of_it(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    committables = job.prepare(0)
    job.log(0)
    (first, *_) = found = waiting(job)
    assert [each.name for each in found] == [name_of(each) for each in committables]
    assert (first.job, first.query, first.sink, first.epoch, first.run) == ("job", "counts", "table", 0, 1)
    assert (first.task, first.rows, first.target) == (0, 3, f"SQLite {tmp_path / 'out.db'}, table numbers")
    assert first.age_seconds is not None
    assert first.age_seconds < 60


def test_a_verdict_follows_from_the_ledger_and_sparks_log(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    job.prepare(0)
    job.log(0)
    job.prepare(1)
    job.log(1)
    job.decide(1)
    job.prepare(2)
    assert verdicts(job) == {
        (0, Named.DECIDED, Seen.STAGED, Verdict.COMMIT),  # Spark has decided it, and nobody has written that down
        (1, Named.DECIDED, Seen.STAGED, Verdict.COMMIT),
        (2, Named.PREPARED, Seen.STAGED, Verdict.ABORT),
    }


def test_of_two_records_of_an_epoch_the_one_that_was_not_chosen_is_given_up(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    job.prepare(0, run=1)
    job.prepare(0, run=2)
    job.decide(0, run=1)
    found = {(each.run, each.verdict) for each in waiting(job)}
    assert found == {(1, Verdict.COMMIT), (2, Verdict.ABORT)}


def test_a_ledger_that_does_not_tell_gives_no_verdict(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    job.prepare(0)
    job.storage.replace(entry(COMMITS, 0), b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["x"]]}}')
    found = look(job.place, {})
    assert [error.code for error in found.problems] == ["TG-LEDGER-HOLE"]
    assert {each.verdict for each in found.waiting} == {Verdict.UNKNOWN}


def test_while_a_driver_is_alive_everything_is_in_use_and_stays(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    committable, *_ = job.prepare(0)
    job.log(0)
    with acquire(job.folder, "job"):
        assert {each.verdict for each in waiting(job)} == {Verdict.IN_USE}
        assert refusal(job, Act.COMMIT, committable).code == "TG-DRIVER-ALIVE"
    assert job.in_table() == []


def test_looking_takes_no_lock_from_a_driver_in_another_process(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    job.prepare(0)
    take = "import sys; from tidegate.storages.local.locks import acquire; acquire(sys.argv[1], 'job')"
    program = f"{take}; print(1, flush=True)"
    driver = subprocess.Popen(
        [sys.executable, "-c", f"{program}; sys.stdin.read()", str(job.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with driver:
        assert driver.stdout is not None
        driver.stdout.readline()
        assert {each.verdict for each in waiting(job)} == {Verdict.IN_USE}
        driver.kill()
    assert {each.verdict for each in waiting(job)} == {Verdict.ABORT}


def test_a_commit_finishes_the_epoch_whole_and_every_decided_one_before_it(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    job.prepare(0)
    job.log(0)
    committables = job.prepare(1)
    job.log(1)
    job.prepare(2)
    job.log(2)
    assert end(job, Act.COMMIT, committables[-1]) == Ended(Ending.COMMITTED, (0, 1))
    assert job.in_table() == job.in_files() == numbers_of(0, 1)
    assert job.storage.list("ledger/done") == ["0", "1"]
    assert {each.epoch for each in waiting(job)} == {2}


def test_a_second_commit_finds_it_committed(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    committable, *_ = job.prepare(0)
    job.log(0)
    end(job, Act.COMMIT, committable)
    assert end(job, Act.COMMIT, committable) == Ended(Ending.ALREADY)
    assert refusal(job, Act.ABORT, committable, force=name_of(committable)).code == "TG-TRANSACTION-KEPT"
    assert job.in_table() == numbers_of(0)


def test_the_command_may_be_killed_before_and_after_every_step(tmp_path: Path) -> None:
    """Each time the next call goes on, and no row is lost or repeated. (What only reads leaves nothing behind.)"""
    steps = 0
    while True:
        folder = tmp_path / str(steps)
        folder.mkdir()
        job = KilledJob(folder)
        committable, *_ = job.prepare(0)
        job.log(0)
        passed = 0

        def reach(point: str, _epoch: int | None, deadly: int = steps) -> None:
            nonlocal passed
            if not point.startswith("read."):
                if passed == deadly:
                    raise Died(point)
                passed += 1

        try:
            end(job, Act.COMMIT, committable, reach=reach)
            break
        except Died:
            pass
        assert end(job, Act.COMMIT, committable).ending in (Ending.COMMITTED, Ending.ALREADY)
        assert job.in_table() == job.in_files() == numbers_of(0), f"killed at step {steps}"
        assert job.storage.list("ledger/done") == ["0"]
        shutil.rmtree(folder)
        steps += 1
    assert steps >= 16, "before and after: run, decision, positions, commits, done, finished, clean-up"


def test_a_sink_that_is_not_ready_is_waited_for_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.sinks.sqlite.disk.BUSY_TIMEOUT_SECONDS", 0.1)
    job = KilledJob(tmp_path)
    committables = job.prepare(0)
    job.log(0)
    with closing(sqlite3.connect(job.table.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ended = end(job, Act.COMMIT, committables[0])
        assert ended.ending is Ending.NOT_COMMITTED
        assert "database is locked" in ended.detail
    assert job.in_table() == job.in_files() == []
    assert end(job, Act.COMMIT, committables[0]).ending is Ending.COMMITTED


def test_a_commit_that_went_through_although_another_sink_is_down_is_told_by_its_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sinks.files.committer.FileCommitter._commit", _disk_is_away)
    job = KilledJob(tmp_path)
    in_table, *_, in_files = job.prepare(0)
    job.log(0)
    assert end(job, Act.COMMIT, in_table).ending is Ending.NOT_DONE
    assert end(job, Act.COMMIT, in_files).ending is Ending.NOT_COMMITTED
    monkeypatch.undo()
    assert end(job, Act.COMMIT, in_files).ending is Ending.COMMITTED
    assert job.in_table() == job.in_files() == numbers_of(0)


def test_what_nobody_can_tell_has_an_exit_code_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is gone under a commit, and does not come back to say what became of it."""
    job = KilledJob(tmp_path)
    *_, in_files = job.prepare(0)
    job.log(0)
    monkeypatch.setattr("tidegate.sinks.files.committer.FileCommitter._commit", _disk_is_away)
    monkeypatch.setattr("tidegate.sinks.files.sink.FileSink.evidence", _cannot_be_asked)
    where = ["--dir", str(job.root), "--wait", "0.1", "--json"]
    said = tidegate("txn", "commit", "job", name_of(in_files), *where)
    assert (said.code, json.loads(said.stdout)["outcome"]) == (Exit.OUTCOME_UNKNOWN, "unknown")
    monkeypatch.undo()
    said = tidegate("txn", "commit", "job", name_of(in_files), *where)
    assert (said.code, json.loads(said.stdout)["outcome"]) == (Exit.OK, "committed")
    assert job.in_table() == job.in_files() == numbers_of(0)


def _disk_is_away(*_: object) -> None:
    raise OSError("away")


def _cannot_be_asked(*_: object) -> None:
    raise TidegateError(Code.SINK_UNAVAILABLE, expected="an answer", found="none", where="files", next_step="mend it")


def test_what_is_not_decided_is_not_committed(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    committable, *_ = job.prepare(0)
    name = name_of(committable)
    error = refusal(job, Act.COMMIT, committable)
    assert error.code == "TG-TRANSACTION-KEPT"
    assert f"--force {name}" in error.next_step
    assert "repeated" in error.next_step
    assert refusal(job, Act.COMMIT, committable, force=name[:-1]).code == "TG-TRANSACTION-KEPT"
    assert job.in_table() == []


def test_by_force_it_is_and_the_price_is_said(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    committable, *_ = job.prepare(0)
    ended = end(job, Act.COMMIT, committable, force=name_of(committable))
    assert ended.ending is Ending.COMMITTED
    assert "TG-SINK-AHEAD" in ended.detail
    assert job.in_table() == numbers_of(0)
    assert job.in_files() == [], "of the one sink only"
    assert {each.verdict for each in waiting(job) if each.sink == "table"} == {Verdict.UNKNOWN}


def test_what_is_decided_is_not_aborted(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    committable, *_ = job.prepare(0)
    job.log(0)
    error = refusal(job, Act.ABORT, committable)
    assert error.code == "TG-TRANSACTION-KEPT"
    assert "journal" in error.next_step


def switched_restore(job: KilledJob) -> None:
    """As one that was killed behind the step that counts leaves it: the new generation has its hidden name still."""
    hidden = job.folder / "queries/counts/.restored-g2"
    shutil.copytree(job.storage.path("."), hidden)
    for left in ("prepared", "decided"):
        shutil.rmtree(hidden / "ledger" / left, ignore_errors=True)
    start = Start(job_id=QUERY.job_id, generation=2, first_epoch=0, sources=QUERY.sources, sinks=QUERY.sinks)
    LocalStorage(hidden).replace(START, encode(start))
    LocalStorage(job.folder).replace("job.json", encode(JobRecord(name="job", job_id=QUERY.job_id, generation=2)))


def test_what_a_killed_restore_has_given_up_is_not_committed_even_by_force(tmp_path: Path) -> None:
    """Its rows would be visible beside those that the new generation shows for the same input, and no start would tell:
    to a new generation evidence of the old one is nothing that is ahead."""
    job = KilledJob(tmp_path)
    first, *_ = job.prepare(0)
    switched_restore(job)
    error = refusal(job, Act.COMMIT, first, force=name_of(first))
    assert error.catalogue_entry is Code.TRANSACTION_UNNAMED
    assert job.in_table() == []
    assert not (job.folder / "queries/counts/.restored-g2").exists(), "the restore is finished first, as at any start"


def test_what_is_open_in_a_sink_of_a_killed_restore_can_be_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = KilledJob(tmp_path)
    switched_restore(job)
    open_, aborted = ["orphan"], list[str]()
    monkeypatch.setattr(SQLiteSink, "pending", lambda _self, _identity: [each for each in open_ if each not in aborted])
    monkeypatch.setattr(SQLiteSink, "abort", lambda _self, names: aborted.extend(names))
    assert verdicts(job) == {(None, Named.NOWHERE, Seen.OPEN, Verdict.ABORT)}
    ended = settle(job.place, Order(act=Act.ABORT, name="orphan", options={}))
    assert (ended.ending, aborted) == (Ending.ABORTED, ["orphan"])


def test_where_nothing_is_open_there_is_nothing_to_abort(tmp_path: Path) -> None:
    """Rows of a table and of files wait beside them; they go at the next start."""
    job = KilledJob(tmp_path)
    committable, *_ = job.prepare(0)
    assert end(job, Act.ABORT, committable).ending is Ending.NOTHING_OPEN
    assert {each.verdict for each in waiting(job)} == {Verdict.ABORT}


def test_a_sink_of_the_users_own_is_for_the_job_to_commit(tmp_path: Path) -> None:
    job = KilledJob(tmp_path, MemorySink("files"))
    in_table, *_ = job.prepare(0)
    job.log(0)
    found = look(job.place, {})
    assert [error.code for error in found.problems] == ["TG-SINK-OUT-OF-REACH"]
    assert {each.verdict for each in found.waiting} == {Verdict.COMMIT}
    assert refusal(job, Act.COMMIT, in_table).code == "TG-SINK-OUT-OF-REACH"
    assert job.in_table() == [], "an epoch is committed whole or not at all"


def test_a_sink_without_rows_in_the_epoch_need_not_be_reached(tmp_path: Path) -> None:
    job = KilledJob(tmp_path, MemorySink("files"))
    in_table, *_ = job.prepare(0, sinks=("table",))
    job.log(0)
    assert {each.sink for each in waiting(job)} == {"table"}
    assert end(job, Act.COMMIT, in_table).ending is Ending.COMMITTED
    assert job.in_table() == numbers_of(0)


def test_a_job_that_was_started_before_its_sinks_were_described_is_named(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    in_table, *_ = job.prepare(0)
    job.log(0)
    (job.folder / SINKS).unlink()
    assert {error.code for error in look(job.place, {}).problems} == {"TG-SINK-OUT-OF-REACH"}
    assert refusal(job, Act.COMMIT, in_table).code == "TG-SINK-OUT-OF-REACH"


def test_evidence_of_another_job_stops_the_commit(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    first, *_ = job.prepare(0)
    job.log(0)
    end(job, Act.COMMIT, first)
    with closing(sqlite3.connect(job.table.path, isolation_level=None)) as other:
        other.execute("UPDATE _tidegate_ledger SET job_id = 'another'")
    second, *_ = job.prepare(1)
    job.log(1)
    assert refusal(job, Act.COMMIT, second).code == "TG-SINK-OF-ANOTHER-JOB"
    assert job.in_table() == numbers_of(0)


def test_a_name_that_nobody_knows_is_answered_with_those_that_wait(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    committable, *_ = job.prepare(0)
    with pytest.raises(TidegateError) as caught:
        settle(job.place, Order(act=Act.ABORT, name=name_of(committable)[:-1], options={}))
    assert caught.value.code == "TG-TRANSACTION-UNNAMED"
    assert name_of(committable) in caught.value.expected


def test_a_decided_epoch_whose_record_is_gone_is_a_problem_and_not_nothing(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    job.prepare(0)
    job.log(0)
    job.decide(0)
    job.storage.delete(prepared_name(0, 1))
    found = look(job.place, {})
    assert ([error.code for error in found.problems], found.waiting) == (["TG-LEDGER-HOLE"], [])
