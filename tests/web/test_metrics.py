"""`/metrics`: names that Flink's users know, counters that never go back, and no more series than are said."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.jobs.folders import another_driver, make_job, say
from tests.support.prometheus import prometheus, promtool
from tests.support.served import served
from tidegate.operate import DoneCheckpoint, Folder, JobTotals, JobView, QueryTotals, State, TimedPhase
from tidegate.operate.beat import Beat, JobState, QueryBeat, write_beat
from tidegate.operate.checkpoints_history import CheckpointsHistory
from tidegate.operate.failures import Failure, add_failure
from tidegate.web import metrics, monitoring
from tidegate.web.application import build
from tidegate.web.metrics import (
    JOBS_SHOWN,
    QUERIES_SHOWN,
    SERIES_A_JOB,
    SERIES_A_QUERY,
    SeenJob,
    metrics_text,
    seen_jobs,
)
from tidegate.web.site import Site

NOW = 1_767_323_045.0
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def done(epoch: int, query: str = "query", **parts: float) -> DoneCheckpoint:
    given = {"aborted": 1, "redone": 0, "shown_again": 0, "committed": 2, "dead_letters": 3, **parts}
    made = DoneCheckpoint(query=query, epoch=epoch, run=1, at=NOW + epoch, duration_ms=300.0, rows=10, read=12)
    return msgspec.structs.replace(made, phases=dict.fromkeys(TimedPhase, 30.0), **given)


def failure(restart: float | None, epoch: int | None = 1) -> Failure:
    return Failure(at=NOW, code="TG-X", what="", where="", remedy="", epoch=epoch, restart_in_seconds=restart)


def scraped(folder: Path) -> Series:
    """By name and labels, what the page of this storage says now."""
    text = metrics_text(lambda: seen_jobs(Site.of(Folder.of(folder)))).decode()
    return {
        (each.name, frozenset(each.labels.items())): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def value(series: Series, name: str, **labels: str) -> float | None:
    return series.get((f"tidegate_job_{name}", frozenset({"job_name": "job", **labels}.items())))


def a_job_that_has_worked(folder: Path) -> Path:
    job = make_job(folder)
    CheckpointsHistory(job).add([done(0), done(1), done(0, "other")])
    for pause in (1.0, 2.0, None):
        add_failure(job, failure(pause))
    return job


def test_what_a_job_has_done_has_the_names_that_flink_uses(tmp_path: Path) -> None:
    a_job_that_has_worked(tmp_path)
    series = scraped(tmp_path)
    assert value(series, "numberOfCompletedCheckpoints") == 3
    assert value(series, "numberOfFailedCheckpoints") == 3
    assert value(series, "totalNumberOfCheckpoints") == 6
    assert value(series, "lastCheckpointDuration") == 300
    assert value(series, "lastCompletedCheckpointId") == 3
    assert value(series, "lastCheckpointCompletedTimestamp") == NOW * 1000
    assert value(series, "numRestarts") == value(series, "supervisor_restarts_total") == 2
    assert value(series, "numRecordsIn", query="query") == 24
    assert value(series, "numRecordsOut", query="query") == 20
    assert value(series, "commits_total", query="query") == 4
    assert value(series, "aborts_total", query="query") == 2
    assert value(series, "redos_total", query="query") == 0
    assert value(series, "dead_letters_total", query="query") == 6
    assert (value(series, "state", state="UNKNOWN"), value(series, "state", state="RUNNING")) == (1, 0)


def test_each_phase_of_the_epochs_has_a_histogram_in_seconds(tmp_path: Path) -> None:
    a_job_that_has_worked(tmp_path)
    series = scraped(tmp_path)
    for phase in TimedPhase:
        of_phase = {"query": "query", "phase": phase.value}
        assert value(series, "epoch_phase_seconds_count", **of_phase) == 2
        assert value(series, "epoch_phase_seconds_sum", **of_phase) == pytest.approx(0.06)
        assert value(series, "epoch_phase_seconds_bucket", **of_phase, le="0.025") == 0
        assert value(series, "epoch_phase_seconds_bucket", **of_phase, le="0.05") == 2
        assert value(series, "epoch_phase_seconds_bucket", **of_phase, le="+Inf") == 2
    assert value(series, "epoch_seconds_sum", query="other") == pytest.approx(0.3)


def test_a_living_driver_says_what_is_open_and_how_far_behind_it_is(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    with another_driver(job) as process:
        at = time.time()
        beat = say(job, JobState.RUNNING, process=process, at=at + 1)
        query = msgspec.structs.replace(
            beat.queries[0], epoch=5, finished=4, open_transactions=2, behind=1_234, open_seconds=7.0
        )
        write_beat(job, msgspec.structs.replace(beat, queries=(query,), at=at, lease_age_seconds=3.0))
        series = scraped(tmp_path)
    assert value(series, "state", state="RUNNING") == 1
    assert value(series, "pendingRecords", query="query") == 1_234
    assert value(series, "pendingCommittables", query="query") == 2
    assert value(series, "numberOfInProgressCheckpoints") == 1
    age = value(series, "beat_age_seconds")
    assert age is not None
    assert 0 <= age < 30
    assert value(series, "open_transactions_age_seconds", query="query") == pytest.approx(7 + age)
    assert value(series, "lease_age_seconds") == pytest.approx(3 + age)


def test_a_dead_driver_has_no_age_and_its_last_report_says_nothing_of_now(tmp_path: Path) -> None:
    say(make_job(tmp_path), JobState.RUNNING)
    series = scraped(tmp_path)
    assert value(series, "state", state="DIED") == 1
    names = ("beat_age_seconds", "lease_age_seconds", "pendingRecords", "pendingCommittables")
    assert [value(series, name) or value(series, name, query="query") for name in names] == [None] * 4


@pytest.mark.parametrize("state", [State.RESTARTING, State.STARTING])
def test_between_two_drivers_the_dead_one_tells_no_rate_and_no_lag_and_what_is_prepared_still_waits(
    state: State,
) -> None:
    runs = full_job("job", 1)
    seen = SeenJob(msgspec.structs.replace(runs.job, state=state), runs.totals)
    text = metrics_text(lambda: [seen], lambda: NOW + 40).decode()
    for name in ("numRecordsOutPerSecond", "pendingRecords", "beat_age_seconds", "lease_age_seconds"):
        assert f"tidegate_job_{name}{{" not in text
    assert 'tidegate_job_open_transactions_age_seconds{job_name="job",query="q0"} 41.0' in text


def test_no_counter_goes_back_when_a_driver_begins_anew_and_the_history_forgets(tmp_path: Path) -> None:
    job = a_job_that_has_worked(tmp_path)
    before = scraped(tmp_path)
    CheckpointsHistory(job).add([done(epoch, aborted=0) for epoch in range(2, 10_500)])
    for _ in range(120):
        add_failure(job, failure(1.0))
    say(job, JobState.RUNNING)  # a new driver, whose own counts begin at 0
    after = scraped(tmp_path)
    counted = [each for each in before if each[0].endswith(("_total", "_count", "_sum", "_bucket"))]
    assert len(counted) > 50
    assert all(after[each] >= before[each] for each in counted)
    assert value(after, "numberOfCompletedCheckpoints") == 10_501
    assert value(after, "aborts_total", query="query") == 2
    assert value(after, "numRestarts") == 122


def test_a_job_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    a_job_that_has_worked(tmp_path)
    (make_job(tmp_path, "broken") / "job.json").write_bytes(b"{")
    series = scraped(tmp_path)
    assert value(series, "state", job_name="broken", state="UNREADABLE") == 1
    assert value(series, "numberOfCompletedCheckpoints") == 3


# --- how many series ---------------------------------------------------------------------------------------


def full_job(name: str, queries: int) -> SeenJob:
    """A living job with every series that there can be."""
    beats = tuple(
        QueryBeat(uid=f"q{number}", run=1, epoch=1, finished=0, rows=0, rows_per_second=1.0, behind=1, open_seconds=1.0)
        for number in range(queries)
    )
    beat = Beat(
        job=name,
        job_id="0a0b0c0d",
        state=JobState.RUNNING,
        host="worker-1",
        process=1,
        started_at=NOW,
        at=NOW,
        progress_at=NOW,
        queries=beats,
        lease_age_seconds=1.0,
    )
    of_query = {each.uid: QueryTotals(last=done(0)).plus([done(0)]) for each in beats}
    totals = JobTotals(queries=of_query, failures=1, restarts=1, failures_of_epochs=1)
    view = JobView(name=name, folder="/nowhere", state=State.RUNNING, job_id="0a0b0c0d", beat=beat)
    return SeenJob(view, totals)


def series_of(jobs: list[SeenJob]) -> int:
    text = metrics_text(lambda: jobs, lambda: NOW).decode()
    return sum(not line.startswith("#") for line in text.splitlines())


def test_a_job_and_a_query_have_no_more_series_than_the_module_says() -> None:
    beside = series_of([])
    assert 0 < series_of([full_job("a", 0)]) - beside <= SERIES_A_JOB
    one, eleven = series_of([full_job("a", 1)]), series_of([full_job("a", 11)])
    assert 0 < (eleven - one) / 10 <= SERIES_A_QUERY


def test_too_many_jobs_and_queries_are_left_out_and_counted_and_those_that_live_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (JOBS_SHOWN, QUERIES_SHOWN) == (500, 500)
    monkeypatch.setattr(metrics, "JOBS_SHOWN", 5)
    monkeypatch.setattr(metrics, "QUERIES_SHOWN", 7)
    ended = [SeenJob(msgspec.structs.replace(full_job(f"a{n}", 1).job, state=State.FAILED), None) for n in range(4)]
    jobs = [*ended, *(full_job(f"z{number}", 3) for number in range(4))]
    assert series_of(jobs) <= 3 + 5 * SERIES_A_JOB + 7 * SERIES_A_QUERY
    text = metrics_text(lambda: jobs, lambda: NOW).decode()
    assert re.findall(r"^tidegate_\w+_left_out (.*)$", text, re.MULTILINE) == ["3.0", "5.0"]
    assert all(f'tidegate_job_uptime{{job_name="z{number}"}}' in text for number in range(4))


def test_no_label_is_called_as_one_of_prometheus() -> None:
    text = metrics_text(lambda: [full_job("a", 1)], lambda: NOW).decode()
    assert set(re.findall(r'[{,](\w+)="', text)) == {"job_name", "query", "state", "phase", "le"}


# --- Prometheus --------------------------------------------------------------------------------------------


def test_promtool_finds_nothing_wrong_but_the_names_that_are_flinks() -> None:
    code, said = promtool("check", "metrics", given=metrics_text(lambda: [full_job("a", 1)], lambda: NOW))
    complaints = [line for line in said.splitlines() if line]
    assert all(line.endswith("metric names should be written in 'snake_case' not 'camelCase'") for line in complaints)
    assert code == (3 if complaints else 0)


def test_the_alert_rules_are_valid_and_know_only_metrics_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "alerts.yml").write_text(monitoring.content_of(monitoring.ALERTS))
    code, said = promtool("check", "rules", str(tmp_path / "alerts.yml"))
    assert (code, "SUCCESS" in said) == (0, True), said
    assert named_in(monitoring.content_of(monitoring.ALERTS)) <= all_names()


def test_the_dashboard_is_whole_and_knows_only_metrics_that_there_are() -> None:
    dashboard = json.loads(monitoring.content_of(monitoring.DASHBOARD))
    shown = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert all(panel["title"] and panel["targets"] for panel in shown)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    names = named_in(json.dumps(dashboard))
    assert len(names) > 15
    assert names <= all_names()


def named_in(text: str) -> set[str]:
    return set(re.findall(r"\btidegate_\w+", text)) - {"tidegate_jobs"}


def all_names() -> set[str]:
    text = metrics_text(lambda: [full_job("a", 1)], lambda: NOW).decode()
    return set(re.findall(r"^(tidegate_\w+)", text, re.MULTILINE))


def test_a_real_prometheus_scrapes_the_page_and_evaluates_the_rules(tmp_path: Path) -> None:
    jobs, server = tmp_path / "checkpoints", tmp_path / "prometheus"
    jobs.mkdir()
    server.mkdir()
    a_job_that_has_worked(jobs)
    rules = server / "alerts.yml"
    rules.write_text(monitoring.content_of(monitoring.ALERTS))
    with served(build(Site.of(Folder.of(jobs)))) as port, prometheus(server, port, rules) as scraping:
        [found] = scraping.await_value("tidegate_job_numberOfCompletedCheckpoints")
        assert found["metric"] == {
            "__name__": "tidegate_job_numberOfCompletedCheckpoints",
            "instance": f"127.0.0.1:{port}",
            "job": "tidegate",
            "job_name": "job",
        }
        assert found["value"][1] == "3"
        [quantile] = scraping.await_value(
            'histogram_quantile(0.5, sum by (le) (tidegate_job_epoch_phase_seconds_bucket{phase="sync"}))'
        )
        assert 0.025 < float(quantile["value"][1]) <= 0.05
        assert "TidegateJobFailed" in scraping.alerts()
