"""tidegate's own views, of real records: those of this release, and those that an older one has left."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from tests.jobs.folders import another_driver, make_job, say
from tests.support.killed_job import KilledJob
from tests.support.saved_job import QUERY, RECORD
from tests.web.by_hand import ID, SAVED_ID, ended_job, job_with_history, page, running_job
from tidegate.checkpoints.manifests import Manifests
from tidegate.core.guarantees import Guarantee, Limit
from tidegate.core.ledger import START
from tidegate.core.levels import Level
from tidegate.core.records import CheckpointRecord, Start, TakenPart, encode
from tidegate.core.redaction import HIDDEN, SECRETS
from tidegate.operate.beat import JobState, ShownSetting, write_beat
from tidegate.operate.checkpoints_history import CheckpointsHistory, DoneCheckpoint
from tidegate.operate.failures import Failure, add_failure
from tidegate.operate.guarantees import write_guarantees
from tidegate.operate.milestones import Milestone, MilestoneKind, add_milestones
from tidegate.operate.sinks import DescribedSink, describe, write_sinks
from tidegate.operate.sources import DescribedSource, write_sources
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder


def test_a_driver_that_notes_no_milestones_has_its_start_on_the_axis(tmp_path: Path) -> None:
    with running_job(tmp_path), page(tmp_path) as client:
        (begun,) = client.get(f"/jobs/{ID}/events-on-axis").json()["events"]
        started_at = client.get(f"/jobs/{ID}/live").json()["driver"]["started_at"]
    assert (begun["kind"], begun["at"]) == ("start", started_at)


def test_the_milestones_stand_between_the_failures_each_once(tmp_path: Path) -> None:
    job = job_with_history(tmp_path, "job")
    kinds = (MilestoneKind.START, MilestoneKind.SAVEPOINT, MilestoneKind.FAILURE, MilestoneKind.START)
    add_milestones(job, [Milestone(at=990.0 + 4 * at, kind=kind, text="") for at, kind in enumerate(kinds)])
    with page(tmp_path) as client:
        (found,) = [each["id"] for each in client.get("/jobs/cards").json()["jobs"]]
        events = client.get(f"/jobs/{found}/events-on-axis").json()["events"]
    assert [(each["at"], each["kind"]) for each in events][:4] == [
        *((990.0, "start"), (994.0, "savepoint"), (999.0, "restart"), (1002.0, "start")),
    ]
    assert events[2]["text"] == "TG-X: it broke"


def test_a_failure_that_cannot_be_read_hides_no_source(tmp_path: Path) -> None:
    with running_job(tmp_path) as job, page(tmp_path) as client:
        LocalStorage(job.job).note("history/failures/000000000001.json", b"{")
        assert client.get(f"/jobs/{ID}/sources").status_code == 200


@pytest.mark.parametrize("cards_first", [True, False])
def test_the_cards_and_the_checkpoints_of_a_long_job_do_not_get_each_others_epochs(
    tmp_path: Path, cards_first: bool
) -> None:
    job = make_job(tmp_path)
    say(job, JobState.FINISHED)
    CheckpointsHistory(job).add(
        [
            DoneCheckpoint(query="query", epoch=epoch, run=1, at=1_000.0 + epoch, duration_ms=1.0 + epoch, rows=5)
            for epoch in range(500)
        ]
    )
    with page(tmp_path) as client:
        if cards_first:
            client.get("/jobs/cards")
        details = client.get(f"/jobs/{ID}/checkpoints/details/100")
        fastest = client.get(f"/jobs/{ID}/checkpoints").json()["summary"]["end_to_end_duration"]["min"]
        (card,) = client.get("/jobs/cards").json()["jobs"]
    assert (details.status_code, fastest, len(card["rates"])) == (200, 1, 30)


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.STOPPED, JobState.CANCELED, JobState.FAILED])
def test_a_job_that_has_ended_is_in_its_state_since_its_driver_ended(tmp_path: Path, state: JobState) -> None:
    job, now = make_job(tmp_path), time.time()
    write_beat(job, msgspec.structs.replace(say(job, state), started_at=now - 300_000, at=now - 60))
    with page(tmp_path) as client:
        (card,) = client.get("/jobs/cards").json()["jobs"]
        ended_at = client.get(f"/jobs/{ID}").json()["end-time"]
    assert (card["state"], card["since"]) == (state.name, now - 60)
    assert ended_at == int((now - 60) * 1_000)


def test_a_job_that_died_is_dead_since_the_last_report_of_its_driver(tmp_path: Path) -> None:
    job, now = make_job(tmp_path), time.time()
    write_beat(job, msgspec.structs.replace(say(job, JobState.RUNNING), started_at=now - 300_000, at=now - 60))
    with page(tmp_path) as client:
        (card,) = client.get("/jobs/cards").json()["jobs"]
    assert (card["state"], card["since"]) == ("DIED", now - 60)


def test_a_job_that_lives_does_so_since_its_driver_began(tmp_path: Path) -> None:
    job, now = make_job(tmp_path), time.time()
    with another_driver(job) as process, page(tmp_path) as client:
        beat = say(job, JobState.RUNNING, process=process, at=now + 1)
        write_beat(job, msgspec.structs.replace(beat, started_at=now + 0.5))
        (card,) = client.get("/jobs/cards").json()["jobs"]
    assert (card["state"], card["since"]) == ("RUNNING", now + 0.5)


def test_jobs_that_failed_come_before_those_that_run_and_those_that_run_before_those_that_ended(tmp_path: Path) -> None:
    say(make_job(tmp_path, "a-finished"), JobState.FINISHED)
    running = make_job(tmp_path, "b-running")
    say(make_job(tmp_path, "c-failed"), JobState.FAILED)
    with another_driver(running) as process, page(tmp_path) as client:
        say(running, JobState.RUNNING, process=process, at=time.time() + 1)
        jobs = client.get("/jobs/cards").json()["jobs"]
    assert [(each["name"], each["state"]) for each in jobs] == [
        ("c-failed", "FAILED"),
        ("b-running", "RUNNING"),
        ("a-finished", "FINISHED"),
    ]


# --- of real records ---------------------------------------------------------------------------------------


def test_the_sinks_have_what_the_last_start_described_and_what_all_epochs_have_done_to_transactions(
    tmp_path: Path,
) -> None:
    job = ended_job(tmp_path)
    storage, table = LocalStorage(job), SQLiteSink("out", tmp_path / "out.db", table="numbers")
    write_sinks(storage, [describe("query", table, Level.EXACTLY_ONCE)], 0.0)
    promise = Guarantee(
        query="query", sink="out", level=Level.EXACTLY_ONCE, limited_by=Limit.NOTHING, where="", why="none is repeated"
    )
    write_guarantees(storage, [promise])
    query = msgspec.structs.replace(say(job, JobState.FINISHED).queries[0], open_transactions=2)
    write_beat(job, msgspec.structs.replace(say(job, JobState.FINISHED), job_id=QUERY.job_id, queries=(query,)))
    done = DoneCheckpoint(query="query", epoch=0, run=1, at=1.0, duration_ms=1.0, rows=5, committed=3, aborted=1)
    CheckpointsHistory(job).add([done, msgspec.structs.replace(done, epoch=1, redone=2, shown_again=4)])
    with page(tmp_path) as client:
        found = client.get(f"/jobs/{SAVED_ID}/sinks").json()
    (sink,) = found.pop("sinks")
    assert (sink["query"], sink["uid"], sink["kind"], sink["level"]) == ("query", "out", "sqlite", "exactly-once")
    assert "numbers" in sink["told"]
    assert (sink["guarantee"], sink["open_transactions"]) == ("exactly-once: none is repeated", 2)
    assert found == {"epochs_done": 2, "committed": 6, "aborted": 2, "redone": 2, "shown_again": 4}


def test_each_transaction_that_waits_has_its_age_and_what_a_command_would_do_with_it(tmp_path: Path) -> None:
    job = KilledJob(tmp_path)
    job.prepare(0)
    job.decide(0)
    job.log(0)
    job.prepare(1)
    with page(job.root) as client:
        found = client.get("/jobs/job/transactions").json()
    assert found["problems"] == []
    told = {each["epoch"]: (each["named"], each["verdict"], each["would"]) for each in found["transactions"]}
    assert told == {
        0: ("decided", "commit", "`tidegate txn commit` would commit it with its epoch; so would the next start"),
        1: (
            "prepared",
            "abort",
            "`tidegate txn abort` would abort it; so would the next start, and its input comes again",
        ),
    }
    assert len(found["transactions"]) == 8
    assert all(0 <= each["age_seconds"] < 600 for each in found["transactions"])
    assert {(each["sink"], each["run"], each["rows"]) for each in found["transactions"]} == {
        ("table", 1, 3),
        ("files", 1, 3),
    }


def test_each_setting_of_the_newest_driver_has_the_place_that_has_set_it(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    shown = (
        ShownSetting(name="checkpointing.interval", value="10s", origin="the file tidegate.toml"),
        ShownSetting(name="kafka.password", value="***", origin="the program"),
    )
    write_beat(job, msgspec.structs.replace(say(job, JobState.FINISHED), settings=shown))
    with page(tmp_path) as client:
        found = client.get(f"/jobs/{ID}/settings").json()["settings"]
    assert found == [msgspec.to_builtins(each) for each in shown]


def test_a_job_with_a_channel_has_it_in_its_graph_and_the_times_of_its_barriers(tmp_path: Path) -> None:
    job = ended_job(tmp_path)
    second = Start(job_id=QUERY.job_id, generation=1, first_epoch=0, sources=("moved",), sinks=("files",))
    LocalStorage(job / "queries" / "second" / "g1").put_if_absent(START, encode(second))
    channel = {"type": "channel", "folder": "f/out"}
    through = DescribedSink(query="query", uid="out", level=Level.EXACTLY_ONCE, keeps_evidence=True, target=channel)
    write_sinks(LocalStorage(job), [through], 0.0)
    write_sources(LocalStorage(job), [DescribedSource(uid="moved", told="a channel", target=channel)])
    part = TakenPart(after_ms=42, aligned_ms=7, rows_held=3, bytes_held=90, rows_in_flight=1)
    at = "2026-11-14T09:02:11+00:00"
    record = CheckpointRecord(
        number=1, job=RECORD.name, job_id=QUERY.job_id, at=at, queries=(), alignment="unaligned", taken={"query": part}
    )
    Manifests(Folder.of(job), 3).put(record)
    with page(tmp_path) as client:
        live = client.get(f"/jobs/{SAVED_ID}/live").json()
    assert [(each["uid"], each["finished"]) for each in live["queries"]] == [("query", 3), ("second", -1)]
    assert {(each["from"], each["to"]) for each in live["graph"]["edges"]} == {
        ("source:in", "query:query"),
        ("query:query", "channel:f/out"),
        ("channel:f/out", "query:second"),
        ("query:second", "sink:second/files"),
    }
    assert live["barriers"] == {
        "number": 1, "at": at, "alignment": "unaligned", "taken": {"query": msgspec.to_builtins(part)},
    }  # fmt: skip
    assert live["retained"] == [1]


def test_the_sources_say_how_far_they_were_read_and_which_lost_records_were_skipped(tmp_path: Path) -> None:
    job = ended_job(tmp_path)
    write_sources(LocalStorage(job), [DescribedSource(uid="in", told="topic 'lines'", target={"type": "kafka"})])
    query = msgspec.structs.replace(say(job, JobState.FINISHED).queries[0], lag="12 rows")
    write_beat(job, msgspec.structs.replace(say(job, JobState.FINISHED), job_id=QUERY.job_id, queries=(query,)))
    lost = "topic lines: partition 1 to 31007 (12 records lost)"
    skip = Milestone(at=5.0, kind=MilestoneKind.SKIP, text=lost, query="query", epoch=2, source="in")
    add_milestones(job, [Milestone(at=4.0, kind=MilestoneKind.START, text=""), skip])
    with page(tmp_path) as client:
        (source,) = client.get(f"/jobs/{SAVED_ID}/sources").json()["sources"]
    assert source == {
        "uid": "in",
        "kind": "kafka",
        "told": "topic 'lines'",
        "lag": {"query": "12 rows"},
        "offsets": {"query": ["entry 3 of the log of its files"]},
        "skipped": [{"at": 5.0, "query": "query", "epoch": 2, "text": lost}],
    }


def test_a_failure_names_the_column_the_row_and_the_file_that_it_is_about_and_no_secret(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    say(job, JobState.FAILED)
    SECRETS.add("hush-hush-hush")
    details: dict[str, str | int] = {"column": "amount", "row": 7, "file": "in/hush-hush-hush.csv", "password": "1234"}
    told = Failure(
        at=1.0, code="TG-X", what="it broke", where="", remedy="", details=details, restart_in_seconds=None
    )  # fmt: skip
    add_failure(job, told)
    shown = {"column": "amount", "row": "7", "file": f"in/{HIDDEN}.csv", "password": HIDDEN}
    with page(tmp_path) as client:
        (failure,) = client.get(f"/jobs/{ID}/failures").json()["failures"]
        stack = client.get(f"/jobs/{ID}/exceptions").json()["root-exception"]
    assert failure["details"] == shown
    assert stack.splitlines() == ["TG-X: it broke", *(f"{name}: {value}" for name, value in shown.items())]
