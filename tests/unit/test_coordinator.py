"""The coordinator of a job's checkpoints: when each query takes part, what is held meanwhile, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.test_channel_log import published
from tidegate.channels import coordinator as module
from tidegate.channels.coordinator import Coordinator, JoinedQuery
from tidegate.channels.sink import ChannelSink
from tidegate.core.barriers import Alignment, AlignmentRule
from tidegate.core.channel_parts import ALL_LIVE, LiveParts
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import DECIDED, FINISHED_THROUGH, Query, entry
from tidegate.core.records import Decided, FinishedThrough, encode
from tidegate.savepoints.running_job import CheckpointAborted
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import IDENTITY

_METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'


@dataclass(slots=True)
class SmallJob:
    """`by-day` writes the channel `numbers`, two rows an epoch; `add` reads it."""

    folder: Folder
    timeout_seconds: float = 60.0
    live: Callable[[], LiveParts] = lambda: ALL_LIVE
    channel: ChannelSink = field(init=False)
    coordinator: Coordinator = field(init=False)

    def __post_init__(self) -> None:
        self.channel = ChannelSink("numbers", self.folder / "channels" / "numbers")
        queries = [
            JoinedQuery(_query("by-day", "in"), self.folder / "by-day", {}, (self.channel,)),
            JoinedQuery(_query("add", "numbers-in"), self.folder / "add", {"numbers-in": self.channel}, ()),
        ]
        self.coordinator = Coordinator("job", queries, self.timeout_seconds, self.live)

    def write(self, epoch: int) -> None:
        """An epoch of the writer is published, and done."""
        published(self.channel.log, self.channel.folder, epoch)
        self.done("by-day", epoch, "in", str(epoch))

    def read(self, epoch: int, *rows: int) -> None:
        """The reader is done with an epoch that ends behind so many rows, at each place in its plan."""
        self.done("add", epoch, "numbers-in", *(json.dumps({"numbers.1.0": each}) for each in rows))

    def done(self, uid: str, epoch: int, source: str, *ends: str) -> None:
        ledger = open_storage(self.folder / uid)
        offsets = "\n".join(["v1", _METADATA, *ends]).encode()
        decided = Decided(epoch=epoch, run=1, prepared_digest="", offsets=offsets, commits=b"")
        ledger.put_if_absent(entry(DECIDED, epoch), encode(decided))
        ledger.replace(FINISHED_THROUGH, encode(FinishedThrough(epoch=epoch)))

    def lets_in(self, query: str, epoch: int) -> None:
        self.coordinator.participant(query).let_in(epoch)

    @property
    def held_at(self) -> int | None:
        """The row at which a reader is held that is not in this checkpoint yet."""
        far = 1_000_000
        at = self.channel.gate.bounded("add", {"numbers.1.0": far})["numbers.1.0"]
        return None if at == far else at


def _query(uid: str, source: str) -> Query:
    return Query(job="job", job_id=IDENTITY.job_id, generation=1, uid=uid, sources=(source, source), sinks=())


@pytest.fixture
def job(tmp_path: Path) -> SmallJob:
    """Both are done with their first epoch."""
    small = SmallJob(Folder.of(tmp_path / "job"))
    small.write(0)
    small.read(0, 2)
    return small


def refusal_of(act: Callable[[], object]) -> TidegateError:
    with pytest.raises(TidegateError) as refused:
        act()
    assert refused.value.catalogue_entry is Code.SAVEPOINT_REFUSED
    assert "nothing of the job was changed" in refused.value.next_step
    return refused.value


def taken(job: SmallJob, *each_look: Callable[[], None]) -> dict[str, int]:
    """The snapshots of a checkpoint. Before each look of the waiting thread the next of these happens."""
    steps = iter(each_look)
    with job.coordinator.checkpoint(lambda: next(steps, lambda: None)()) as snapshots:
        return {done.query: done.epoch for done in snapshots}


def test_queries_that_have_nothing_to_do_take_part_in_the_thread_that_waits(job: SmallJob) -> None:
    assert taken(job) == {"by-day": 0, "add": 0}
    assert job.held_at is None


def test_a_reader_is_held_from_the_writers_snapshot_until_its_own(job: SmallJob) -> None:
    job.write(1)
    seen: list[int | None] = []
    parts = partial(map, job.coordinator.has_taken_part, ("by-day", "add"))
    assert [*parts()] == [None, None]
    with job.coordinator.checkpoint(lambda: None) as snapshots:
        seen.append(job.held_at)
        each = iter(snapshots)
        assert next(each).epoch == 1
        assert [*parts()] == [True, False]
        job.lets_in("by-day", 2)
        job.write(2)
        seen.append(job.held_at)
        job.lets_in("add", 1)
        job.read(1, 4)
        seen.append(job.held_at)
        assert next(each).epoch == 1
        seen.append(job.held_at)
        assert [*parts()] == [True, True]
    assert seen == [None, 4, 4, None]
    assert [*parts()] == [None, None]


def test_a_writer_waits_while_a_reader_has_more_rows_left_than_its_channel_allows(job: SmallJob) -> None:
    """Each epoch of the writer has two rows."""
    writer, reader = job.coordinator.participant("by-day"), job.coordinator.participant("add")
    job.write(1)
    job.write(2)
    assert writer.may_begin(), "no bound"
    job.channel.max_unread = 3
    assert not writer.may_begin()
    assert reader.may_begin(), "it writes no channel"
    job.read(1, 3)
    assert writer.may_begin()


def test_a_reader_that_has_not_begun_has_all_rows_left(tmp_path: Path) -> None:
    job = SmallJob(Folder.of(tmp_path / "job"))
    job.channel.max_unread = 1
    assert job.coordinator.participant("by-day").may_begin()
    job.write(0)
    assert not job.coordinator.participant("by-day").may_begin()


def test_a_busy_query_takes_part_just_before_its_next_epoch(job: SmallJob) -> None:
    with job.coordinator.checkpoint(lambda: None) as snapshots:
        job.lets_in("by-day", 1)
        assert job.held_at == 2
        job.write(1)
        assert next(iter(snapshots)).epoch == 0


def test_no_query_takes_part_while_its_epoch_is_under_way(job: SmallJob) -> None:
    """Its rows may be in the channel, and the epoch is not done."""
    job.lets_in("by-day", 1)

    def publish() -> None:
        published(job.channel.log, job.channel.folder, 1)

    def done() -> None:
        assert job.held_at is None
        job.done("by-day", 1, "in", "1")

    assert taken(job, publish, done, lambda: job.read(1, 4)) == {"by-day": 1, "add": 1}


def test_a_source_that_a_reader_reads_twice_stands_at_the_barrier_at_both_places(job: SmallJob) -> None:
    job.write(1)
    job.read(1, 2, 4)
    assert taken(job, lambda: None, lambda: job.read(2, 4, 4)) == {"by-day": 1, "add": 2}


def test_a_query_takes_part_once(job: SmallJob) -> None:
    with job.coordinator.checkpoint(lambda: None) as snapshots:
        each = iter(snapshots)
        next(each)
        job.lets_in("by-day", 1)
        job.write(1)
        job.lets_in("by-day", 2)
        assert next(each).epoch == 0


def test_a_query_waits_if_a_paused_finisher_of_an_older_driver_has_put_its_record_back(job: SmallJob) -> None:
    """The rows of epoch 1 are in the channel: epoch 0 would be no snapshot behind which the channel ends."""
    job.write(1)
    job.read(1, 4)

    def put_back() -> None:
        job.done("by-day", 0, "in", "0")

    def look() -> None:
        job.lets_in("by-day", 2)
        assert job.held_at is None

    assert taken(job, put_back, look, lambda: job.write(2), lambda: job.read(2, 6)) == {"by-day": 2, "add": 2}


def test_a_checkpoint_needs_a_done_epoch_of_every_query(tmp_path: Path) -> None:
    job = SmallJob(Folder.of(tmp_path / "job"))
    job.write(0)
    error = refusal_of(lambda: taken(job))
    assert (error.expected, error.found) == ("a done epoch of query add", "none yet")
    job.read(0, 2)
    assert taken(job) == {"by-day": 0, "add": 0}


@pytest.mark.parametrize(
    ("query", "before", "found"),
    [
        ("add", lambda job: job.write(1), "channel numbers: 2 rows to read"),
        ("by-day", lambda job: job.lets_in("by-day", 1), "its epoch has not ended"),
    ],
)
def test_a_checkpoint_that_takes_too_long_says_what_it_waits_for(
    job: SmallJob, monkeypatch: pytest.MonkeyPatch, query: str, before: Callable[[SmallJob], None], found: str
) -> None:
    clock = iter(range(0, 1000, 40))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    before(job)

    def wait() -> None:
        with job.coordinator.checkpoint(lambda: None) as snapshots:
            list(snapshots)

    error = refusal_of(wait)
    assert error.expected == f"query {query} to take part within 60 s (checkpointing.timeout)"
    assert error.found == found
    assert error.next_step.startswith("let it catch up, and take it again")
    assert job.held_at is None, "rows flow on"


def test_a_job_that_ends_ends_its_checkpoint_and_lets_no_other_begin(job: SmallJob) -> None:
    job.write(1)
    error = refusal_of(lambda: taken(job, lambda: None, lambda: job.coordinator.close("the job is ending")))
    assert (error.expected, error.found) == ("every query to take part", "the job is ending")
    assert job.held_at is None
    error = refusal_of(lambda: taken(job))
    assert (error.expected, error.found) == ("a job that runs", "the job is ending")


def test_rows_flow_on_after_a_checkpoint_that_was_canceled(job: SmallJob) -> None:
    job.write(1)

    def cancel() -> None:
        assert job.held_at == 4
        raise InterruptedError

    with pytest.raises(InterruptedError):
        taken(job, lambda: None, cancel)
    assert job.held_at is None
    job.read(1, 4)
    assert taken(job) == {"by-day": 1, "add": 1}


def test_each_checkpoint_asks_for_the_oldest_live_generation(job: SmallJob) -> None:
    """After a restore the rows of generation 1 behind the savepoint are read no more."""
    job.write(1)
    restored = SmallJob(job.folder, live=lambda: LiveParts(2))
    assert taken(restored) == {"by-day": 1, "add": 0}


def test_an_aborted_checkpoint_lets_rows_flow_and_another_one_begins(job: SmallJob) -> None:
    job.write(1)
    with pytest.raises(CheckpointAborted):
        taken(job, lambda: None, job.coordinator.abort)
    assert job.held_at is None
    job.read(1, 4)
    assert taken(job) == {"by-day": 1, "add": 1}


def test_an_epoch_begins_although_its_query_cannot_be_looked_at_and_the_checkpoint_is_aborted(job: SmallJob) -> None:
    ledger = open_storage(job.folder / "by-day")
    with job.coordinator.checkpoint(lambda: None) as snapshots:
        ledger.replace(FINISHED_THROUGH, b"torn")
        job.lets_in("by-day", 1)
        ledger.replace(FINISHED_THROUGH, encode(FinishedThrough(epoch=0)))
        with pytest.raises(CheckpointAborted):
            list(snapshots)
    assert job.held_at is None


def test_a_query_takes_part_in_the_order_of_time_and_not_of_the_program(job: SmallJob) -> None:
    """The files of a snapshot are held as soon as it is taken."""
    job.lets_in("by-day", 1)
    alone = Coordinator(
        "job", [JoinedQuery(_query(uid, "in"), job.folder / uid, {}, ()) for uid in ("by-day", "add")], 60, job.live
    )
    alone.participant("by-day").let_in(1)
    with alone.checkpoint(lambda: None) as snapshots:
        each = iter(snapshots)
        assert next(each).query == "add"
        job.done("by-day", 1, "in", "1")
        assert next(each).query == "by-day"


def test_unaligned_a_reader_takes_part_at_once_and_its_rows_stay_until_the_end(job: SmallJob) -> None:
    """It is two epochs behind: the rows between its position and the barrier are in flight."""
    job.write(1)
    job.write(2)
    passed = job.channel.passed
    with job.coordinator.checkpoint(lambda: None, AlignmentRule(Alignment.UNALIGNED)) as snapshots:
        assert {done.query: done.epoch for done in snapshots} == {"by-day": 2, "add": 0}
        assert snapshots.alignment is Alignment.UNALIGNED
        job.coordinator.abort()
        assert {"numbers.1.0": 2} in passed.held, "its caller may be about to write the manifest"
    assert passed.held == ()


def test_unaligned_a_reader_that_has_taken_part_before_its_writer_is_not_held(job: SmallJob) -> None:
    job.lets_in("by-day", 1)
    with job.coordinator.checkpoint(lambda: None, AlignmentRule(Alignment.UNALIGNED)) as snapshots:
        each = iter(snapshots)
        assert next(each).query == "add"
        job.write(1)
        job.lets_in("by-day", 2)
        assert next(each).query == "by-day"
        assert job.held_at is None


def test_unaligned_a_reader_that_has_not_begun_to_read_takes_part_when_it_has(job: SmallJob) -> None:
    """After a restore its source is new: Spark has no position of it. A checkpoint without one has its rows nowhere."""
    job.done("add", 1, "numbers-in", "-")
    with job.coordinator.checkpoint(lambda: None, AlignmentRule(Alignment.UNALIGNED)) as snapshots:
        each = iter(snapshots)
        assert next(each).query == "by-day"
        job.coordinator.look_at_all()
        job.lets_in("add", 2)
        job.read(2, 2)
        assert next(each).epoch == 2


def test_unaligned_an_epoch_under_way_ends_first(job: SmallJob) -> None:
    job.write(1)
    job.lets_in("add", 1)
    with job.coordinator.checkpoint(lambda: None, AlignmentRule(Alignment.UNALIGNED)) as snapshots:
        each = iter(snapshots)
        assert next(each).query == "by-day"
        job.read(1, 3)
        job.lets_in("add", 2)
        assert next(each).epoch == 1


def test_an_aligned_checkpoint_that_takes_too_long_overtakes_the_rows(job: SmallJob) -> None:
    job.write(1)
    with job.coordinator.checkpoint(lambda: None, AlignmentRule(aligned_seconds=0.3)) as snapshots:
        each = iter(snapshots)
        assert next(each).query == "by-day"
        assert (snapshots.alignment, job.held_at) == (Alignment.ALIGNED, 4)
        assert next(each).epoch == 0
        assert snapshots.alignment is Alignment.UNALIGNED


def test_at_least_once_a_reader_of_one_channel_is_held_and_so_is_exact(job: SmallJob) -> None:
    job.write(1)
    with job.coordinator.checkpoint(lambda: None, AlignmentRule(Alignment.AT_LEAST_ONCE)) as snapshots:
        each = iter(snapshots)
        assert next(each).query == "by-day"
        assert job.held_at == 4
        job.lets_in("add", 1)
        job.read(1, 4)
        assert next(each).epoch == 1


def test_what_waits_behind_a_barrier_is_measured(job: SmallJob) -> None:
    """The writer publishes two rows behind its barrier before the reader takes part."""
    job.write(1)
    with job.coordinator.checkpoint(lambda: None) as snapshots:
        each = iter(snapshots)
        next(each)
        job.lets_in("by-day", 2)
        job.write(2)
        job.read(1, 4)
        next(each)
    written, read = snapshots.taken["by-day"], snapshots.taken["add"]
    assert (written.rows_held, written.aligned_ms) == (0, 0)
    assert (read.rows_held, read.bytes_held > 0, read.after_ms >= read.aligned_ms) == (2, True, True)


def test_unaligned_nothing_waits(job: SmallJob) -> None:
    job.write(1)
    with job.coordinator.checkpoint(lambda: None, AlignmentRule(Alignment.UNALIGNED)) as snapshots:
        list(snapshots)
    assert snapshots.taken["add"].rows_held == 0
