"""Flink's clients find its paths and its field names; what tidegate does not know has Flink's neutral value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.folders import make_job, say
from tests.web.by_hand import ID, job_with_history, page
from tidegate.operate import State
from tidegate.operate.beat import JobState
from tidegate.web.flink.checkpoints import summary
from tidegate.web.flink.ids import checkpoint_id
from tidegate.web.flink.states import HAS_ENDED, JOB_STATES, STATUS, TASK_STATES

_SIZES = {"checkpointed_size", "state_size", "alignment_buffered", "processed_data", "persisted_data"}
_CHECKPOINT = _SIZES | {
    "id", "className", "status", "is_savepoint", "savepointFormat", "trigger_timestamp", "latest_ack_timestamp",
    "end_to_end_duration", "num_subtasks", "num_acknowledged_subtasks", "checkpoint_type", "tasks", "external_path",
    "discarded",
}  # fmt: skip

FIELDS = {
    "/config": {
        "refresh-interval", "timezone-name", "timezone-offset", "flink-version", "flink-revision", "features",
    },
    "/overview": {
        "taskmanagers", "slots-total", "slots-available", "jobs-running", "jobs-finished", "jobs-cancelled",
        "jobs-failed", "flink-version", "flink-commit",
    },
    "/jobs": {"jobs"},
    "/jobs/overview": {"jobs"},
    f"/jobs/{ID}": {
        "jid", "name", "isStoppable", "state", "start-time", "end-time", "duration", "maxParallelism", "now",
        "timestamps", "vertices", "status-counts", "plan", "job-type", "pending-operators",
    },
    f"/jobs/{ID}/config": {"jid", "name", "execution-config"},
    f"/jobs/{ID}/plan": {"plan"},
    f"/jobs/{ID}/status": {"status"},
    f"/jobs/{ID}/execution-result": {"status", "job-execution-result"},
    f"/jobs/{ID}/exceptions": {"root-exception", "timestamp", "all-exceptions", "truncated", "exceptionHistory"},
    f"/jobs/{ID}/checkpoints": {"counts", "summary", "latest", "history"},
    f"/jobs/{ID}/checkpoints/details/2": _CHECKPOINT,
    f"/jobs/{ID}/checkpoints/config": {
        "mode", "interval", "timeout", "min_pause", "max_concurrent", "externalization", "state_backend",
        "checkpoint_storage", "unaligned_checkpoints", "aligned_checkpoint_timeout", "tolerable_failed_checkpoints",
        "checkpoints_after_tasks_finish", "state_changelog_enabled", "changelog_storage",
        "changelog_periodic_materialization_interval",
    },
}  # fmt: skip


COUNTED = (
    ("totalNumberOfCheckpoints", "total"),
    ("numberOfInProgressCheckpoints", "in_progress"),
    ("numberOfCompletedCheckpoints", "completed"),
    ("numberOfFailedCheckpoints", "failed"),
)
"""Metrics of /metrics, and the same among the counts of a job's checkpoints."""


@pytest.mark.parametrize("path", FIELDS)
def test_a_view_has_the_fields_of_flink_with_and_without_a_version(tmp_path: Path, path: str) -> None:
    job_with_history(tmp_path)
    with page(tmp_path) as client:
        found, versioned = client.get(path), client.get(f"/v1{path}")
        assert (found.status_code, versioned.status_code) == (200, 200)
        assert FIELDS[path] <= set(found.json())
        assert set(found.json()) == set(versioned.json())


def test_a_job_in_the_overview_has_what_flink_list_reads(tmp_path: Path) -> None:
    job_with_history(tmp_path)
    with page(tmp_path) as client:
        (job,) = client.get("/jobs/overview").json()["jobs"]
    assert (job["jid"], job["name"], job["state"]) == (ID, "job", "FINISHED")
    assert {"start-time", "end-time", "duration", "last-modification", "tasks", "pending-operators"} <= set(job)
    assert {each.lower() for each in TASK_STATES} | {"total"} == set(job["tasks"])
    assert (job["tasks"]["total"], job["tasks"]["finished"]) == (1, 1)


def test_a_job_has_one_state_in_all_views_and_is_found_by_each_of_its_names(tmp_path: Path) -> None:
    job_with_history(tmp_path)
    with page(tmp_path) as client:
        for named in (ID, "0a0b0c0d", "job"):
            assert client.get(f"/jobs/{named}/status").json() == {"status": "FINISHED"}
        result = client.get(f"/jobs/{ID}/execution-result").json()
        assert result["job-execution-result"]["application-status"] == "SUCCEEDED"
        assert client.get("/overview").json()["jobs-finished"] == 1
        assert client.get("/jobs/no-such-job/status").status_code == 404


def test_every_state_has_a_state_of_flink() -> None:
    assert set(STATUS) == set(State)
    assert {each.name for each in STATUS.values()} <= set(JOB_STATES)
    assert {each.value for each in STATUS.values()} <= set(TASK_STATES)
    assert not [state for state in State if state.alive and STATUS[state] in HAS_ENDED]


def test_an_end_that_failed_gives_its_cause_to_flinks_clients(tmp_path: Path) -> None:
    say(make_job(tmp_path), JobState.FAILED, error="TG-X: the table is gone")
    with page(tmp_path) as client:
        result = client.get(f"/jobs/{ID}/execution-result").json()["job-execution-result"]
    assert result["application-status"] == "FAILED"
    assert {"class", "stack-trace", "serialized-throwable"} <= set(result["failure-cause"])
    assert "the table is gone" in result["failure-cause"]["stack-trace"]


def test_epochs_are_checkpoints_and_their_failed_tries_and_failures_are_failed_ones(tmp_path: Path) -> None:
    job_with_history(tmp_path)
    with page(tmp_path) as client:
        found = client.get(f"/jobs/{ID}/checkpoints").json()
        assert client.get(f"/jobs/{ID}/checkpoints/details/9").status_code == 404
        assert client.get(f"/jobs/{ID}/checkpoints/details/1").json() == found["history"][1]
        metrics = set(client.get("/metrics").text.splitlines())
    assert found["counts"] == {"restored": 1, "total": 6, "in_progress": 0, "completed": 3, "failed": 3}
    assert metrics >= {f'tidegate_job_{name}{{job_name="job"}} {found["counts"][count]:.1f}' for name, count in COUNTED}
    assert [each["id"] for each in found["history"]] == [2, 1, 0]
    newest = found["latest"]["completed"]
    assert (newest["trigger_timestamp"], newest["latest_ack_timestamp"]) == (1_001_980, 1_002_000)
    assert found["latest"]["failed"]["failure_message"] == "TG-X: it broke"
    assert found["summary"]["end_to_end_duration"] == {
        "min": 10, "max": 30, "avg": 20, "p50": 20.0, "p90": 30.0, "p95": 30.0, "p99": 30.0, "p999": 30.0,
    }  # fmt: skip


def test_a_percentile_is_a_measured_value_that_so_many_percent_do_not_exceed() -> None:
    found = summary([float(number) for number in range(1, 101)])
    assert (found.p50, found.p90, found.p95, found.p99, found.p999) == (50.0, 90.0, 95.0, 99.0, 100.0)
    assert summary([]).max == 0


def test_checkpoints_of_several_queries_have_numbers_of_their_own() -> None:
    queries = ["a", "b", "c"]
    numbers = [checkpoint_id(query, epoch, queries) for epoch in range(10) for query in queries]
    assert numbers == sorted(set(numbers))
    assert [checkpoint_id("a", epoch, ["a"]) for epoch in range(3)] == [0, 1, 2]


def test_exceptions_are_the_failures_the_newest_first_and_at_most_as_many_as_asked(tmp_path: Path) -> None:
    job_with_history(tmp_path)
    with page(tmp_path) as client:
        (entry,) = client.get(f"/jobs/{ID}/exceptions?maxExceptions=1").json()["exceptionHistory"]["entries"]
        refused = client.get(f"/jobs/{ID}/exceptions?maxExceptions=0")
    assert {"exceptionName", "stacktrace", "timestamp", "taskName", "location", "concurrentExceptions"} <= set(entry)
    assert (entry["exceptionName"], entry["timestamp"], entry["taskName"]) == ("TG-X", 999_000, "query")
    assert entry["stacktrace"].splitlines() == ["TG-X: it broke", "at query", "column: amount", "row: 7", "wait"]
    assert (refused.status_code, refused.headers["content-type"]) == (400, "application/problem+json")


def test_flinks_own_client_gets_an_error_that_it_can_read(tmp_path: Path) -> None:
    """It sends no `Accept`, and takes any object with another field than `errors` for the answer."""
    job_with_history(tmp_path)
    with page(tmp_path) as client:
        others = client.get("/v1/jobs/none/status")
        del client.headers["accept"]
        flinks = [client.get("/v1/jobs/none/status"), client.get("/v1/none"), client.post("/v1/jars/x/run", json=[])]
        well = client.get(f"/v1/jobs/{ID}/status")
    assert [each.status_code for each in flinks] == [404, 404, 400]
    assert all(set(each.json()) == {"errors"} and each.json()["errors"][0] for each in flinks)
    assert (others.headers["content-type"], others.json()["code"]) == ("application/problem+json", "TG-JOB-UNKNOWN")
    assert well.json() == {"status": "FINISHED"}
