"""Events of a job as they come: a client that comes again has no gap and no repeat, and costs the job nothing."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.jobs.folders import make_job
from tests.support.served import served
from tidegate import operate
from tidegate.core.records import JobRecord, encode
from tidegate.operate import DoneCheckpoint, Folder
from tidegate.operate.checkpoints_history import CheckpointsHistory
from tidegate.operate.failures import Failure, add_failure
from tidegate.web.application import build
from tidegate.web.events import EventKind, JobNews, Numbered, Position, job_events, state_events
from tidegate.web.own import streams
from tidegate.web.own.streams import JobReader
from tidegate.web.sharing import SharedView, Streams
from tidegate.web.site import Site
from tidegate.web.watching import Watch

T = TypeVar("T")
JOB = "0a0b0c0d"


def done(epoch: int) -> DoneCheckpoint:
    return DoneCheckpoint(query="query", epoch=epoch, run=1, at=float(epoch), duration_ms=5.0, rows=3)


def failure() -> Failure:
    return Failure(at=1.0, code="TG-X", what="", where="", remedy="", restart_in_seconds=1.0)


def numbered(*numbers: int) -> Sequence[Numbered]:
    return [Numbered(each, str(each).encode()) for each in numbers]


async def nothing_behind(position: Position) -> tuple[Sequence[Numbered], Sequence[Numbered]]:
    raise AssertionError(f"the histories were read behind {position}")


class Feed:
    """A view that a test changes. It is read when the test lets it."""

    def __init__(self, news: JobNews) -> None:
        self.news = news
        self.reads = 0
        self.let = asyncio.Semaphore(0)
        self.shared = SharedView(self._read, 1.0, self._pause)

    def _read(self) -> JobNews:
        self.reads += 1
        return self.news

    async def _pause(self, _: float) -> None:
        await self.let.acquire()

    def show(self, news: JobNews) -> None:
        self.news = news
        self.let.release()

    async def show_to(self, waiting: int, news: JobNews) -> None:
        """Show it when so many clients wait, and return when they have it."""
        while self.shared._waiting < waiting:
            await asyncio.sleep(0.001)
        reads = self.reads
        self.show(news)
        while self.reads == reads:
            await asyncio.sleep(0.001)


def fields(event: bytes) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in event.decode().strip().splitlines() if ": " in line)


async def take(events: AsyncGenerator[bytes, None], count: int) -> list[dict[str, str]]:
    return [fields(await asyncio.wait_for(anext(events), 10)) for _ in range(count)]


def run(steps: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(steps, 60))


# --- positions ---------------------------------------------------------------------------------------------


def test_an_id_is_a_position_and_any_other_text_is_none() -> None:
    assert Position.of(str(Position(JOB, 12, 3))) == Position(JOB, 12, 3)
    for text in (
        "",
        "12",
        "a.b.c",
        f"{JOB}.1",
        f"{JOB}.1.2.3",
        f"{JOB}.-1.2",
        f"{JOB}.1.\u0663",
        f"{JOB}.{'9' * 99}.1",
    ):
        assert Position.of(text) is None


def test_a_new_client_begins_now_and_one_with_a_position_behind_it() -> None:
    async def story() -> None:
        news = JobNews(newest=Position(JOB, 5, 2), live=b"{}", epochs=numbered(3, 4, 5), failures=numbered(1, 2))
        [_, live] = await take(job_events(Feed(news).shared, nothing_behind), 2)
        assert (live["event"], live["id"]) == ("live", f"{JOB}.5.2")
        [_, *again] = await take(job_events(Feed(news).shared, nothing_behind, f"{JOB}.3.1"), 5)
        assert [(each["event"], each["data"], each["id"]) for each in again] == [
            ("epoch", "4", f"{JOB}.4.1"),
            ("epoch", "5", f"{JOB}.5.1"),
            ("failure", "2", f"{JOB}.5.2"),
            ("live", "{}", f"{JOB}.5.2"),
        ]

    run(story())


def test_all_that_another_job_of_the_same_name_has_done_is_new() -> None:
    async def story() -> None:
        news = JobNews(newest=Position("ffffffff", 2, 0), live=b"{}", epochs=numbered(1, 2))
        [_, *events] = await take(job_events(Feed(news).shared, nothing_behind, f"{JOB}.900.4"), 4)
        assert [each["data"] for each in events] == ["1", "2", "{}"]

    run(story())


def test_a_position_that_the_history_has_lost_repeats_nothing() -> None:
    async def story() -> None:
        feed = Feed(JobNews(newest=Position(JOB, 3, 0), live=b"1", epochs=numbered(3)))
        events = job_events(feed.shared, nothing_behind, f"{JOB}.9.0")
        [_, live] = await take(events, 2)
        assert (live["event"], live["id"]) == ("live", f"{JOB}.9.0")

    run(story())


def test_a_problem_is_told_once_and_the_position_stays() -> None:
    async def story() -> None:
        feed = Feed(JobNews(problem=b"away"))
        events = job_events(feed.shared, nothing_behind, f"{JOB}.1.0")
        [_, problem] = await take(events, 2)
        assert problem == {"event": "problem", "data": "away"}
        following = asyncio.create_task(take(events, 2))
        await feed.show_to(1, JobNews(problem=b"away"))
        await feed.show_to(1, JobNews(newest=Position(JOB, 2, 0), live=b"{}", epochs=numbered(1, 2)))
        assert [each["event"] for each in await following] == ["epoch", "live"]

    run(story())


# --- slow, silent and gone clients -------------------------------------------------------------------------


def test_a_slow_client_misses_states_and_no_epoch() -> None:
    async def story() -> None:
        feed = Feed(JobNews(newest=Position(JOB, 0, 0), live=b"0"))
        slow, quick = job_events(feed.shared, nothing_behind), job_events(feed.shared, nothing_behind)
        await take(slow, 2)
        await take(quick, 2)
        for number in range(1, 6):
            feed.show(
                JobNews(newest=Position(JOB, number, 0), live=b"%d" % number, epochs=numbered(*range(1, number + 1)))
            )
            assert [each["event"] for each in await take(quick, 2)] == ["epoch", "live"]
        late = await take(slow, 6)
        assert [each["data"] for each in late] == ["1", "2", "3", "4", "5", "5"]
        assert late[-1]["event"] == "live"

    run(story())


def test_a_silent_stream_has_heartbeats_also_while_the_storage_does_not_answer() -> None:
    async def story() -> None:
        feed = Feed(JobNews(newest=Position(JOB, 0, 0), live=b"{}"))
        for events in (
            job_events(feed.shared, nothing_behind, heartbeat_seconds=0.05),
            state_events(SharedView(lambda: b"{}", 60.0), EventKind.CARDS, heartbeat_seconds=0.05),
        ):
            assert await anext(events) == b"retry: 2000\n\n"
            await anext(events)
            assert [await asyncio.wait_for(anext(events), 10) for _ in range(2)] == [b":\n\n"] * 2

    run(story())


def test_a_hundred_clients_cause_one_read_in_a_period_and_clients_that_are_gone_none() -> None:
    async def story() -> None:
        feed = Feed(JobNews(newest=Position(JOB, 0, 0), live=b"0"))
        clients = [job_events(feed.shared, nothing_behind) for _ in range(100)]
        await asyncio.gather(*(take(each, 2) for each in clients))
        assert feed.reads == 1
        waiting = [asyncio.create_task(take(each, 1)) for each in clients]
        await feed.show_to(100, JobNews(newest=Position(JOB, 0, 0), live=b"1"))
        assert {found[0]["data"] for found in await asyncio.gather(*waiting)} == {"1"}
        assert feed.reads == 2
        for each in clients:
            await each.aclose()
        feed.let.release()
        while not feed.shared.is_idle:
            await asyncio.sleep(0.001)
        assert feed.reads == 2
        streams = Streams()
        assert streams.shared("job", lambda: feed.shared) is feed.shared
        streams.shared("other", lambda: SharedView(lambda: b"", 1.0))
        assert streams.shared("job", lambda: SharedView(feed._read, 1.0)) is not feed.shared

    run(story())


def test_a_view_that_was_read_before_nobody_waited_is_not_given_out() -> None:
    async def story() -> None:
        views = iter(["old", "new"])
        shared = SharedView(lambda: next(views), 0.0)
        assert (await shared.newer(0))[1] == "old"
        while not shared.is_idle:
            await asyncio.sleep(0.001)
        assert (await shared.newer(0))[1] == "new"

    run(story())


# --- a real job's folder -----------------------------------------------------------------------------------


def test_whoever_comes_and_goes_gets_every_epoch_and_failure_once(tmp_path: Path) -> None:
    """A client leaves after any event, while the job works on, and comes again with the id of the last one."""
    job, chance = make_job(tmp_path), random.Random(39)
    history = CheckpointsHistory(job)
    history.add([done(epoch) for epoch in range(700)])
    add_failure(job, failure())
    worked = 700

    async def story() -> list[dict[str, str]]:
        nonlocal worked
        found: list[dict[str, str]] = []
        last = f"{JOB}.0.0"
        while worked < 1_500 or int(last.split(".")[1]) < worked:
            site = Site(Folder.of(tmp_path), Watch(0.0))
            client = operate.open(tmp_path, "job")
            shared = SharedView(JobReader(site, client).read, 0.0)
            events = job_events(shared, streams._behind(site, client), last)
            await anext(events)
            for _ in range(chance.choice([1, 3, 50, 300, 1_000])):
                event = fields(await asyncio.wait_for(anext(events), 10))
                if event["event"] != "live":
                    found.append(event)
                last = event["id"]
                if worked < 1_500 and chance.random() < 0.1:
                    history.add([done(worked + more) for more in range(20)])
                    worked += 20
                if worked == 1_500 and int(last.split(".")[1]) == worked:
                    break
            await events.aclose()
        return found

    found = run(story())
    epochs = [json.loads(each["data"])["number"] for each in found if each["event"] == "epoch"]
    assert epochs == list(range(1, 1_501))
    assert [json.loads(each["data"])["number"] for each in found if each["event"] == "failure"] == [1]


def test_a_reader_reads_of_the_histories_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job(tmp_path)
    CheckpointsHistory(job).add([done(epoch) for epoch in range(5_000)])
    for _ in range(3):
        add_failure(job, failure())
    reader = JobReader(Site(Folder.of(tmp_path), Watch(0.0)), operate.open(tmp_path, "job"))
    assert (reader.read().newest, reader.read().epoch_before) == (Position(JOB, 5_000, 3), 4_800)
    asked: list[tuple[int, int]] = []
    epochs, failures = operate.JobClient.epochs, operate.JobClient.failures
    monkeypatch.setattr(
        operate.JobClient,
        "epochs",
        lambda self, newest=200, **of: asked.append((of.get("behind", -1), newest)) or epochs(self, newest, **of),
    )
    monkeypatch.setattr(operate.JobClient, "failures", lambda self, behind=0: failures(self, behind))
    CheckpointsHistory(job).add([done(5_000)])
    assert reader.read().newest == Position(JOB, 5_001, 3)
    assert 5_000 in {behind for behind, _ in asked}
    (job / "job.json").write_bytes(encode(JobRecord(name="job", job_id="ffffffff", generation=1)))
    assert reader.read().newest == Position("ffffffff", 5_001, 3)
    (job / "job.json").write_bytes(b"{")
    assert reader.read().newest == Position("ffffffff", 5_001, 3), "a job that cannot be read now has not begun anew"


@contextmanager
def stream(port: int, path: str, last: str = "") -> Iterator[Callable[[], dict[str, str]]]:
    """An event stream of the server; gives its next event."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Last-Event-ID": last} if last else {})
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")

    def event() -> dict[str, str]:
        lines: list[bytes] = []
        while (line := answer.readline()) not in (b"\n", b""):
            lines.append(line)
        return fields(b"".join(lines))

    try:
        yield event
    finally:
        connection.close()


def test_a_real_server_streams_a_job_and_resumes_where_the_client_was(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    history = CheckpointsHistory(job)
    history.add([done(0)])
    with served(build(Site(Folder.of(tmp_path), Watch(0.05)))) as port:
        with stream(port, "/jobs/job/events") as event:
            assert event() == {"retry": "2000"}
            assert (live := event())["event"] == "live"
            assert json.loads(live["data"])["card"]["name"] == "job"
            history.add([done(1)])
            while (epoch := event())["event"] != "epoch":
                pass
            assert (epoch["id"], json.loads(epoch["data"])["epoch"]) == (f"{JOB}.2.0", 1)
        history.add([done(2), done(3)])
        with stream(port, f"/v1/jobs/{JOB:0<32}/events", epoch["id"]) as event:
            came: list[str] = []
            while len(came) < 2:
                came += [told["id"]] if (told := event()).get("event") == "epoch" else []
            assert came == [f"{JOB}.3.0", f"{JOB}.4.0"]
        with stream(port, "/events") as event:
            event()
            assert [card["name"] for card in json.loads(event()["data"])["jobs"]] == ["job"]
