"""`from tidegate import operate`: jobs looked at and asked from a program, as the commands do it."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.jobs.folders import another_driver, make_job, say
from tests.support.killed_job import KilledJob
from tests.support.saved_job import RECORD, write_job
from tidegate import TidegateError, operate
from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.core.records import encode
from tidegate.operate.beat import JobState
from tidegate.operate.checkpoints_history import CheckpointsHistory
from tidegate.operate.control import Answer, Desk, Kind, Outcome
from tidegate.operate.done_checkpoint import DoneCheckpoint
from tidegate.operate.failures import Failure, add_failure
from tidegate.storages.opening import open_storage

SOON = 1.0


def test_all_jobs_of_a_storage_are_listed_and_one_is_opened_by_name_id_or_uri(tmp_path: Path) -> None:
    say(make_job(tmp_path, "words"), JobState.FINISHED)
    make_job(tmp_path, "lines")
    (tmp_path / "lines" / JOB_RECORD).write_bytes(b"torn")
    assert [(job.name, job.state) for job in operate.jobs(str(tmp_path))] == [
        ("lines", operate.State.UNREADABLE),
        ("words", operate.State.FINISHED),
    ]
    assert operate.names(tmp_path) == ("lines", "words")
    for storage, name in ((tmp_path, "words"), (f"file://{tmp_path}", "0a0b0c0d")):
        client = operate.open(storage, name)
        assert (client.name, client.view().state) == ("words", operate.State.FINISHED)


@pytest.mark.parametrize(
    ("storage", "job", "code"),
    [("here", "words", "TG-JOB-UNKNOWN"), ("ftp://b/jobs", "words", "TG-SETTING-VALUE")],
)
def test_what_cannot_be_opened_is_refused_with_a_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str, job: str, code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TidegateError) as caught:
        operate.open(storage, job)
    assert caught.value.code == code


def test_the_history_has_checkpoints_failures_and_restarts(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    say(job, JobState.FAILED)
    done = DoneCheckpoint(query="query", epoch=3, run=1, at=5.0, duration_ms=7.0, rows=2, number=1)
    CheckpointsHistory(job).add([done])
    for pause in (1.0, None):
        failure = Failure(at=6.0, code="TG-X", what="", where="", remedy="", restart_in_seconds=pause)
        add_failure(job, failure)
    client = operate.open(tmp_path, "job")
    history = client.history()
    assert history.checkpoints == (done,)
    assert [each.restart_in_seconds for each in history.failures] == [None, 1.0]
    assert [each.restart_in_seconds for each in history.restarts] == [1.0]
    assert client.epochs() == (done,)
    assert client.epochs(before=5.0) == client.epochs(behind=1) == client.epochs(since=5.5) == ()
    totals = client.totals()
    assert (totals.queries["query"].last, totals.failures, totals.restarts) == (done, 2, 1)
    info = client.info()
    assert (info.job.state, info.queries, info.retained, info.drained_at) == (operate.State.FAILED, (), (), None)


def test_a_ticket_is_pending_until_the_driver_answers_and_is_found_again_by_its_id(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    client = operate.open(tmp_path, "job")
    with another_driver(job) as process:
        say(job, JobState.RUNNING, process=process, at=time.time() + SOON)
        ticket = client.checkpoint(id="one")
        assert [each.id for each in Desk(job).open_requests(time.time())] == ["one"], "it is asked at once"
        looked = ticket.poll()
        assert (looked.state, looked.stage, looked.answer) == (operate.TicketState.PENDING, operate.Stage.ASKED, None)
        heard: list[str] = []
        assert ticket.wait(0.0, heard.append).state is operate.TicketState.PENDING
        assert looked.waits_for == "the job to answer `checkpoint`"
        done = Answer(id="one", kind=Kind.CHECKPOINT, outcome=Outcome.DONE, detail="", at=1.0, epochs={"query": 4})
        Desk(job).answer(done)
        again = client.ticket("one")
        assert again is not None
        for each in (ticket, again):
            assert (each.poll().state, each.poll().answer) == (operate.TicketState.DONE, done)
        assert client.ticket("two") is None


def test_a_job_that_is_starting_is_not_asked_yet(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    with another_driver(job):
        ticket = operate.open(tmp_path, "job").stop()
        assert ticket.poll().stage is operate.Stage.UNASKED
    assert ticket.poll().state is operate.TicketState.REFUSED
    assert not (job / "control").exists()


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.DONE, operate.TicketState.DONE),
        (Outcome.REFUSED, operate.TicketState.REFUSED),
        (Outcome.PENDING, operate.TicketState.FAILED),
        (Outcome.FAILED, operate.TicketState.FAILED),
        (Outcome.TOO_LATE, operate.TicketState.REFUSED),
        (Outcome.NOT_RUNNING, operate.TicketState.REFUSED),
        (Outcome.UNKNOWN, operate.TicketState.UNKNOWN),
    ],
)
def test_every_outcome_has_a_state(tmp_path: Path, outcome: Outcome, state: operate.TicketState) -> None:
    job = make_job(tmp_path)
    Desk(job).answer(Answer(id="one", kind=Kind.CHECKPOINT, outcome=outcome, detail="", at=1.0))
    ticket = operate.open(tmp_path, "job").ticket("one")
    assert ticket is not None
    assert ticket.poll().state is state


def test_of_a_job_that_has_ended_this_process_takes_the_savepoint_and_can_be_called_off(tmp_path: Path) -> None:
    write_job(tmp_path / "job")
    open_storage(tmp_path / "job").put_if_absent(JOB_RECORD, encode(RECORD))
    saved = tmp_path / "saved"
    client = operate.open(tmp_path, "job")

    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    ticket = client.stop_with_savepoint(str(saved), id="one")
    with suppress(KeyboardInterrupt):  # unless the copy was quicker
        ticket.wait(30, interrupted)
    view = client.stop_with_savepoint(str(saved), id="one").wait(0.0)  # a copy of its own is waited for in any case
    assert view.answer is not None
    assert (view.state, view.answer.epochs) == (operate.TicketState.DONE, {"query": 3})
    (found,) = operate.list_savepoints(saved).savepoints
    assert found.path == view.answer.savepoint
    assert operate.verify_savepoint(found.path).problems == ()
    assert operate.compare_savepoints(found.path, found.path) == ()


def test_an_error_of_a_ticket_is_raised_at_every_look(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    client = operate.open(tmp_path, "job")
    with pytest.raises(TidegateError, match="TG-REQUEST-REFUSED"):
        client.stop(id="../one")
    Desk(job).answer(Answer(id="one", kind=Kind.STOP, outcome=Outcome.DONE, detail="", at=1.0))
    with pytest.raises(TidegateError, match="TG-REQUEST-REFUSED"):
        client.cancel(id="one")


def test_transactions_are_listed_committed_and_the_job_is_forgotten(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    committables = job.prepare(0)
    job.log(0)
    job.decide(0)
    client = operate.open(job.root, "job")
    found = client.transactions()
    assert (len(found.waiting), found.problems) == (len(committables), ())
    (of_all,) = operate.list_transactions(job.root)
    assert [each.name for each in of_all.waiting] == [each.name for each in found.waiting]
    assert client.commit(found.waiting[0].name).ending is operate.Ending.COMMITTED
    assert client.transactions().waiting == ()
    assert client.forget().job == "job"
    assert operate.jobs(job.root) == ()
