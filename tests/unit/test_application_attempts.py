"""Attempts of one application of YARN: each counts those before it, waits, or gives the job up.

An attempt is killed where it ends without a word. The storage is a real folder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.formats.test_written import BEAT
from tidegate.checkpoints.retention import delete_checkpoints
from tidegate.checkpoints.succession import begin_job
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import JobRecord
from tidegate.core.telling import error_of
from tidegate.operate.beat import JobState, read_beat, write_beat
from tidegate.operate.failures import read_failures
from tidegate.operate.reports import FailureReport, report_of
from tidegate.spark import yarn_attempt
from tidegate.spark.yarn_attempt import AttemptOfContainer
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder
from tidegate.supervise.application_attempt import ApplicationAttempt, Time
from tidegate.supervise.application_attempts import AttemptRecords, AttemptsSoFar
from tidegate.supervise.line import Finished, GoOn, QueryFailed, Refused, RestartQuery, Running, StartAnnounced
from tidegate.supervise.news import News
from tidegate.supervise.restart import ExponentialDelay, FailureRate, FixedDelay, NoRestart, Restarted, RestartPolicy
from tidegate.supervise.restart_history import RestartsSoFar

APPLICATION = "application_1767323045678_0001"
JOB = JobRecord(name="words", job_id="0f1e2d3c", generation=1)
STEADY = ExponentialDelay(initial=1.0, maximum=60.0, multiplier=2.0, reset=3600.0, jitter=0.0)


@dataclass
class Yarn:
    """An application: its attempts one after the other, its clock, and whether YARN starts another one."""

    folder: Path
    strategy: RestartPolicy
    now: float = 1_000.0
    attempts: int = 0
    slept: list[float] = field(default_factory=list[float])
    has_ended: bool = False

    def start(self, seconds_later: float = 30.0) -> ApplicationAttempt:
        assert not self.has_ended
        self.attempts += 1
        self.now += seconds_later
        return ApplicationAttempt(
            APPLICATION, self.attempts, self.strategy, News(), self._end, Time(lambda: self.now, self._sleep)
        )

    def declared(self, attempt: ApplicationAttempt) -> GoOn | Refused:
        """The answer to its declaration."""
        attempt.say(
            StartAnnounced(
                job="words", folder=str(self.folder), strategy=self.strategy, progress_timeout=600.0, stop_timeout=60.0
            )
        )
        (answer,) = attempt.hear()
        assert isinstance(answer, GoOn | Refused)
        return answer

    def running(self) -> ApplicationAttempt:
        attempt = self.start()
        assert isinstance(self.declared(attempt), GoOn)
        begin_job(Folder.of(self.folder), JOB)
        attempt.say(Running(JOB.job_id))
        return attempt

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def _end(self) -> None:
        self.has_ended = True


def yarn(folder: Path, strategy: RestartPolicy) -> Yarn:
    return Yarn(folder, strategy)


def failure(code: Code = Code.QUERY_FAILED) -> FailureReport:
    return report_of(TidegateError(code, expected="a job that runs", found="none", where="job words", next_step="look"))


def refused(answer: GoOn | Refused) -> TidegateError:
    assert isinstance(answer, Refused)
    return error_of(answer.error)


def test_killed_attempts_count_until_the_strategy_gives_up_and_the_history_says_why(tmp_path: Path) -> None:
    cluster = yarn(tmp_path, FixedDelay(attempts=2, delay=7.0))
    for _ in range(3):
        assert isinstance(cluster.declared(cluster.start()), GoOn)
    assert cluster.slept == [7.0, 7.0]
    last = cluster.start()
    error = refused(cluster.declared(last))
    assert error.code == "TG-DRIVER-DIED"
    assert "fixed-delay, 2 attempts" in str(error)
    assert f"application attempt 3 of {APPLICATION}" in str(error)
    assert not cluster.has_ended
    last.say(Finished(report=report_of(error)))
    assert cluster.has_ended
    assert [each.restart_in_seconds for each in read_failures(tmp_path)] == [None, 7.0, 7.0]


def test_an_attempt_that_yarn_starts_although_the_job_is_given_up_is_refused(tmp_path: Path) -> None:
    """The way to the application master may be closed."""
    cluster = yarn(tmp_path, NoRestart())
    cluster.running().say(Finished(report=failure()))
    assert cluster.has_ended
    cluster.has_ended = False
    again = cluster.start()
    error = refused(cluster.declared(again))
    assert (error.code, "restart.strategy: none" in str(error)) == ("TG-QUERY-FAILED", True)
    again.say(Finished(report=report_of(error)))
    assert cluster.has_ended
    assert len(read_failures(tmp_path)) == 1


@pytest.mark.parametrize("application", [APPLICATION, "application_1767323045678_0002"])
def test_a_start_that_is_refused_reports_the_end_of_the_job_unless_it_runs_in_another_application(
    tmp_path: Path, application: str
) -> None:
    cluster = yarn(tmp_path, NoRestart())
    cluster.running()
    write_beat(tmp_path, msgspec.structs.replace(BEAT, application=application))
    refused(cluster.declared(cluster.start()))
    beat = read_beat(tmp_path)
    assert beat is not None
    assert beat.state is (JobState.FAILED if application == APPLICATION else JobState.RUNNING)


def test_the_pause_after_a_reported_failure_runs_while_yarn_starts_the_next_attempt(tmp_path: Path) -> None:
    cluster = yarn(tmp_path, FixedDelay(attempts=9, delay=40.0))
    cluster.running().say(Finished(report=failure()))
    assert not cluster.has_ended
    cluster.running()
    assert cluster.slept == [10.0]


@pytest.mark.parametrize("skew", [-5_000.0, 5_000.0])
def test_a_clock_that_is_wrong_makes_no_pause_longer(tmp_path: Path, skew: float) -> None:
    cluster = yarn(tmp_path, FixedDelay(attempts=9, delay=4.0))
    cluster.running().say(Finished(report=failure()))
    cluster.now += skew
    cluster.running()
    assert cluster.slept == [4.0] * (skew < 0)


def test_failures_of_queries_and_of_drivers_are_counted_together(tmp_path: Path) -> None:
    cluster = yarn(tmp_path, FixedDelay(attempts=2, delay=1.0))
    first = cluster.running()
    first.say(QueryFailed(failure()))
    assert first.hear() == [RestartQuery(1.0)]
    second = cluster.running()  # the first one was killed
    second.say(QueryFailed(failure()))
    assert second.hear() == [RestartQuery(None)]
    second.say(Finished(report=failure()))
    assert cluster.has_ended
    assert [each.code for each in read_failures(tmp_path)] == ["TG-QUERY-FAILED", "TG-DRIVER-DIED", "TG-QUERY-FAILED"]


def test_pauses_grow_over_attempts_and_begin_anew_after_a_quiet_time(tmp_path: Path) -> None:
    cluster = yarn(tmp_path, STEADY)
    for _ in range(4):
        assert isinstance(cluster.declared(cluster.start()), GoOn)
    assert cluster.slept == [1.0, 2.0, 4.0]
    assert isinstance(cluster.declared(cluster.start(seconds_later=4_000.0)), GoOn)
    assert cluster.slept[3:] == [1.0]


def test_a_rate_of_failures_is_measured_over_attempts(tmp_path: Path) -> None:
    cluster = yarn(tmp_path, FailureRate(max_failures=2, interval=100.0, delay=0.0))
    for later in (30.0, 200.0, 30.0, 200.0):
        assert isinstance(cluster.declared(cluster.start(later)), GoOn)
    assert isinstance(cluster.declared(cluster.start(30.0)), GoOn)
    assert isinstance(cluster.declared(cluster.start(30.0)), Refused)


@pytest.mark.parametrize(
    ("code", "goes_on"), [(Code.KAFKA_UNREACHABLE, True), (Code.PROGRAM_FAILED, False), (Code.SCHEMA_MISMATCH, False)]
)
def test_a_mistake_that_no_restart_cures_ends_the_application_at_once(
    tmp_path: Path, code: Code, goes_on: bool
) -> None:
    cluster = yarn(tmp_path, STEADY)
    attempt = cluster.start()
    assert isinstance(cluster.declared(attempt), GoOn)
    attempt.say(Finished(report=failure(code)))
    assert cluster.has_ended is not goes_on


def test_an_error_of_the_program_is_cured_once_an_earlier_attempt_has_run(tmp_path: Path) -> None:
    cluster = yarn(tmp_path, STEADY)
    cluster.running()
    attempt = cluster.start()
    cluster.declared(attempt)
    attempt.say(Finished(report=failure(Code.PROGRAM_FAILED)))
    assert not cluster.has_ended


def test_a_program_that_fails_before_it_names_its_job_waits_its_pause_and_is_given_up_in_time(tmp_path: Path) -> None:
    cluster = yarn(tmp_path, FixedDelay(attempts=2, delay=5.0))
    cluster.start().say(Finished(report=failure(Code.KAFKA_UNREACHABLE)))
    cluster.start().say(Finished(report=failure(Code.KAFKA_UNREACHABLE)))
    assert (cluster.slept, cluster.has_ended) == ([5.0, 5.0], False)
    cluster.start().say(Finished(report=failure(Code.KAFKA_UNREACHABLE)))
    assert cluster.has_ended
    wrong = yarn(tmp_path, STEADY)
    wrong.start().say(Finished(report=failure(Code.PROGRAM_UNREADABLE)))
    assert wrong.has_ended


def test_a_job_that_ends_well_or_was_to_end_is_not_started_again(tmp_path: Path) -> None:
    ends: list[tuple[Finished, bool]] = [
        (Finished(report=None), False),  # the application master takes leave by itself after a success
        (Finished(report=None, code=3), True),
        (Finished(report=failure(Code.SINK_UNAVAILABLE), job_ended=True), True),
    ]
    for number, (said, ended_by_us) in enumerate(ends):
        cluster = yarn(tmp_path / str(number), STEADY)
        cluster.running().say(said)
        assert cluster.has_ended is ended_by_us


def test_a_tolerated_epoch_costs_no_restart_and_its_count_goes_to_the_next_attempt(tmp_path: Path) -> None:
    cluster = yarn(tmp_path, FixedDelay(attempts=1, delay=50.0))
    cluster.running().say(Finished(report=failure(Code.EPOCH_TIMEOUT), failed_epochs={"counts": 2}))
    second = cluster.start()
    answer = cluster.declared(second)
    assert answer == GoOn({"counts": 2}, JOB.job_id)
    assert (cluster.slept, cluster.has_ended) == ([], False)
    second.say(Running(JOB.job_id))
    second.say(Finished(report=failure()))
    assert not cluster.has_ended


def test_an_attempt_that_was_paused_counts_once_and_ends_nothing(tmp_path: Path) -> None:
    """YARN took it for dead and has started the next one, which counted it as killed."""
    cluster = yarn(tmp_path, FixedDelay(attempts=1, delay=0.0))
    paused = cluster.running()
    cluster.running()
    paused.say(Finished(report=failure()))
    assert not cluster.has_ended
    assert [each.code for each in read_failures(tmp_path)] == ["TG-DRIVER-DIED"]


def test_another_application_begins_to_count_anew_and_removes_the_failures_of_the_old_one(tmp_path: Path) -> None:
    cluster = yarn(tmp_path, NoRestart())
    cluster.running().say(Finished(report=failure()))
    other = AttemptRecords(Folder.of(tmp_path), "application_1767323045678_0002")
    assert other.newest() == (0, AttemptsSoFar())
    other.has_run("1a2b3c4d")
    assert other.newest() == (0, AttemptsSoFar(restarts=RestartsSoFar(has_run=True), resumes="1a2b3c4d"))
    old = AttemptRecords(Folder.of(tmp_path), APPLICATION)
    assert old.newest() == (0, AttemptsSoFar(restarts=RestartsSoFar(has_run=True), resumes=JOB.job_id))


def test_the_jobs_of_the_newest_applications_stay_recorded(tmp_path: Path) -> None:
    names = [f"application_1767323045678_{number:04}" for number in range(1, 31)]
    for name in names:
        AttemptRecords(Folder.of(tmp_path), name).has_run(JOB.job_id)
    assert sorted(each.name for each in (tmp_path / "restarts").iterdir()) == names[-21:]


def test_a_later_attempt_only_resumes_the_job_that_its_application_has_run(tmp_path: Path) -> None:
    """The job may be forgotten before YARN starts the attempt, which would begin it anew. `starting.py` compares."""
    cluster = yarn(tmp_path, STEADY)
    assert cluster.declared(cluster.start()) == GoOn()
    cluster.running()
    delete_checkpoints(Folder.of(tmp_path), JOB.job_id, lambda _: None)
    refused_one = cluster.start()
    assert cluster.declared(refused_one) == GoOn(resumes=JOB.job_id)
    refused_one.say(Finished(report=failure(Code.JOB_MISMATCH)))
    assert cluster.has_ended


def test_one_record_is_kept_however_often_the_job_fails(tmp_path: Path) -> None:
    cluster = yarn(tmp_path, STEADY)
    attempt = cluster.running()
    for _ in range(5):
        attempt.say(QueryFailed(failure()))
    assert sorted(each.name for each in (tmp_path / "restarts" / APPLICATION).iterdir()) == ["5", "has-run"]


def test_a_storage_that_is_away_stops_no_decision_and_refuses_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = yarn(tmp_path, FixedDelay(attempts=1, delay=1.0))
    attempt = cluster.running()
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "put_if_absent", is_away)
        attempt.say(QueryFailed(failure()))
        assert attempt.hear() == [RestartQuery(1.0)]
        attempt.say(QueryFailed(failure()))
        assert attempt.hear() == [RestartQuery(None)]
        patch.setattr(LocalStorage, "list", is_away)
        assert refused(cluster.declared(cluster.start())).code == "TG-STORAGE-UNUSABLE"


def is_away(*_: Any) -> Any:
    raise TidegateError(Code.STORAGE_UNUSABLE, expected="a storage", found="none", where="here", next_step="wait")


@pytest.mark.parametrize(
    ("container", "attempt"),
    [("container_1767323045678_0001_02_000001", 2), ("container_e17_1767323045678_0001_11_000001", 11)],
)
def test_a_container_says_which_attempt_it_belongs_to(container: str, attempt: int) -> None:
    assert AttemptOfContainer.of({"CONTAINER_ID": container}) == AttemptOfContainer(APPLICATION, attempt)


@pytest.mark.parametrize("given", [{}, {"CONTAINER_ID": "somewhere"}])
def test_a_driver_outside_of_a_container_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(TidegateError, match="in a container of YARN"):
        AttemptOfContainer.of(given)


def test_settings_that_the_driver_cannot_read_end_the_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else YARN starts attempts for ever: each of them ends before anything decides."""
    ended: list[int] = []
    monkeypatch.setattr(yarn_attempt, "end_application", ended.append)
    monkeypatch.setattr(yarn_attempt, "set_up", lambda *_: None)
    monkeypatch.setenv("CONTAINER_ID", "container_1767323045678_0001_02_000001")
    monkeypatch.setenv("TIDEGATE_CONFIG", str(tmp_path / "tidegate.toml"))
    assert (yarn_attempt.drive_in_yarn("words.py", []), ended) == (1, [2])


def test_the_pause_is_at_most_that_of_the_newest_failure() -> None:
    known = AttemptsSoFar(restarts=RestartsSoFar(past=(Restarted(at=10.0, pause=3.0),), next_start=13.0))
    assert [known.pause_at(now) for now in (0.0, 11.0, 14.0)] == [3.0, 2.0, 0.0]
