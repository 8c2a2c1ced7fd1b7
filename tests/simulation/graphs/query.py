"""One query in one driver: Spark plans, logs and hands over its epochs, and the protocol does the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tests.simulation.graphs.graph import Flow, Node
from tests.simulation.graphs.rows import Rows, goes_to, key_of, passed_on
from tests.simulation.graphs.topic import PlayedChannel, journal_of
from tests.simulation.graphs.turns import Turns
from tidegate.channels.channel import Channel
from tidegate.channels.log import PublishedRows, rows_folder
from tidegate.channels.sink import ChannelSink
from tidegate.channels.transaction import handle_of
from tidegate.checkpoints.job_layout import QUERIES, generation_folder
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.channel_parts import ChannelPosition, LiveParts
from tidegate.core.effects import Compute, Computed, Hesitate
from tidegate.core.epoch import run_epoch
from tidegate.core.errors import TidegateError
from tidegate.core.finish_steadily import finish_as_they_come
from tidegate.core.happenings import EpochDone, Happening
from tidegate.core.ledger import COMMITS, OFFSETS, Query, entry, read_finished
from tidegate.core.records import Attempt, ChannelKey, Committable, JobRecord, JournalRef, Run, committable_digest
from tidegate.core.recover import open_run
from tidegate.core.seal import seal_generation
from tidegate.core.spark_log import parse_offsets
from tidegate.operate.runner import Runner
from tidegate.sources.kafka.offsets import OffsetRange
from tidegate.spark.sources.channel import ChannelMonitor, ChannelPositions, rows_retained
from tidegate.spark.sources.python_stream import Place
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

JOB: Final = Folder.of("s3://bucket/job")
JOB_ID: Final = "0123abcd"
LOGGED: Final = b'v1\n{"nextBatchWatermarkMs":0}'
_POLL_SECONDS: Final = 0.3


AnyChannel: TypeAlias = ChannelSink | PlayedChannel


class Refused(Exception):
    """The run of a query ends."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a query finds around it. `slowness`: how long an epoch of a query takes at most, in seconds. `arrived`: how
    many rows an outside source has. `rows`: those of every file. `consumed`: by query, generation, epoch and run, what
    each place in the plan has read. `fails`: true where the query is to fail. `record`, `live`: the generation of the
    job, and the parts of channels that it reads. `keys`: what parts the rows of
    each keyed channel in this driver.
    """

    turns: Turns
    slowness: Mapping[str, float]
    sinks: Mapping[str, AnyChannel]
    arrived: Mapping[str, int]
    rows: dict[str, Rows]
    consumed: dict[tuple[str, int, int, int], list[Rows]]
    fails: Callable[[], bool]
    record: JobRecord
    live: LiveParts
    keys: Mapping[str, ChannelKey]

    def rows_of(self, channel: Channel, found: Iterable[PublishedRows | OffsetRange]) -> Rows:
        """Read rows of a channel."""
        return [row for each in found for row in self._read(channel, each)]

    def _read(self, channel: Channel, found: PublishedRows | OffsetRange) -> Rows:
        self.turns.step()
        if isinstance(found, PublishedRows):
            return self.rows[found.journal.name][found.skip : found.skip + found.rows]
        assert isinstance(channel, PlayedChannel)
        return channel.topic.committed(found)


class _RunnerWithoutJournals(Runner):
    """A topic that is played finds the rows of a lost transaction itself."""

    def read_journal(self, reference: JournalRef) -> Iterator[pa.RecordBatch]:
        return iter(())


class _SlowPositions(ChannelPositions):
    """Another thread can get between the two questions of a reader."""

    def __init__(self, turns: Turns, channel: Channel, *arguments: Any, **options: Any) -> None:
        super().__init__(channel, *arguments, **options)
        self._turns = turns

    def after(self, start: Place) -> Place:
        self._turns.step()
        return super().after(start)


class RunOfQuery:
    """One run: its stream's thread and its finisher. It is the port of the runner, too."""

    def __init__(
        self, node: Node, around: Around, let_in: Callable[[int], None], stands: Callable[[int], None]
    ) -> None:
        """`let_in`: called before an epoch computes. `stands`: called with each done epoch, and after recovery."""
        self.node = node
        self.query = query_of(node, around.record)
        self.is_over = False
        """It takes no epoch any more."""
        self._around = around
        self._let_in = let_in
        self._stands = stands
        self._turns = around.turns
        self._folder = folder_of(node.uid, around.record.generation)
        self._storage = open_storage(self._folder)
        self._finished = self._logged = -1
        self._ends: tuple[str, ...] = ()
        self._starts: tuple[str, ...] = ()
        self._places: Sequence[ChannelPositions | None] = ()
        self._runner = _RunnerWithoutJournals(
            query=self.query,
            storage=self._storage,
            sinks={uid: around.sinks[uid] for uid in node.writes},
            journal_folder=self._folder / "ledger" / "journal",
            checkpoint=open_checkpoint_files(self._folder / "spark"),
            port=self,
            reach=self._reach,
        )
        self.run: Run | None = None
        self._monitors = {source: self._monitor(source, channel) for source, channel in node.reads.items()}

    def recover(self) -> None:
        self.run = self._runner.run(open_run(self.query))
        self._finished = self._runner.run(read_finished())
        self._stands(self._finished)
        self._places = [self._place(source) for source in self.node.sources]

    def seal(self) -> None:
        """End this generation of the query, as a restore does."""
        self._runner.run(seal_generation(self.query))

    # --- its threads ----------------------------------------------------------------------------------------

    def stream(self) -> None:
        """Spark's thread. Raises what ends the run."""
        try:
            for epoch in self._planned():
                self._runner.run(run_epoch(self.query, self._opened(), epoch))
                if not self._storage.put_if_absent(entry(COMMITS, epoch), LOGGED):
                    raise Refused("another driver has logged the end of the epoch")
                self._logged = epoch
        finally:
            self.is_over = True

    def finisher(self) -> None:
        try:
            self._runner.run(finish_as_they_come(self.query, self._opened()))
        except (TidegateError, Refused):
            pass
        finally:
            self.is_over = True

    def _planned(self) -> Any:
        """Yields each epoch, once its offsets are logged."""
        logged = [entry_numbers(self._storage.list(folder)) for folder in (OFFSETS, COMMITS)]
        offsets, self._logged = (max(each, default=-1) for each in logged)
        self._ends = self._read(offsets - 1) if offsets > self._logged else self._read(offsets)
        if offsets > self._logged:
            self._starts, self._ends = self._ends, self._read(offsets)
            yield offsets
        for epoch in range(offsets + 1, 1 << 30):
            if self._has_read_all():
                return
            self._starts, self._ends = self._ends, self._next_ends()
            if not self._storage.put_if_absent(entry(OFFSETS, epoch), offsets_of(self._ends)):
                raise Refused("another driver has logged the epoch")
            yield epoch

    def _has_read_all(self) -> bool:
        ended = [self.node.flows.get(source) is Flow.ENDED for source in self.node.sources]
        return all(ended) and all(self._end(place) == end for place, end in enumerate(self._ends))

    @property
    def is_done(self) -> bool:
        """True if it has read all of its input, and has finished all epochs."""
        return self._has_read_all() and self._finished == self._logged

    def _next_ends(self) -> tuple[str, ...]:
        """Ask each source, until there is something to do."""
        rng = self._turns.rng
        while True:
            if self.is_over:
                raise Refused("the finisher has failed")
            found = tuple(self._end(place) for place in range(len(self._places)))
            if found != self._ends or rng.random() < 0.02:  # an epoch without data, as a watermark asks for
                return found
            self._turns.wait(None, rng.uniform(0, _POLL_SECONDS))

    def _end(self, place: int) -> str:
        self._turns.step()
        channel = self._places[place]
        if channel is None:
            return str(self._around.arrived[self.node.sources[place]])
        return json.dumps(channel.after(json.loads(self._ends[place])))

    def _read(self, epoch: int) -> tuple[str, ...]:
        found = None if epoch < 0 else parse_offsets(self._storage.read(entry(OFFSETS, epoch)))
        if found is not None:
            return tuple(each or "" for each in found.positions)
        return tuple("0" if each is None else json.dumps(each.first()) for each in self._places)

    def _place(self, source: str) -> ChannelPositions | None:
        channel = self.node.reads.get(source)
        if channel is None:
            return None
        sink, turns = self._around.sinks[channel], self._turns

        begin, live = sink.begin_of(self.query.generation), self._around.live
        tasks = 3 if channel in self._around.keys else 1
        return _SlowPositions(turns, sink, source, begin, lambda: tasks, live, self.node.uid)

    # --- the port -------------------------------------------------------------------------------------------

    def compute(self, effect: Compute) -> Computed:
        self._let_in(effect.epoch)
        self._turns.wait(None, self._turns.rng.uniform(0, self._around.slowness[self.node.uid]))
        read = [self._rows(place) for place in range(len(self._places))]
        self._around.consumed[self.node.uid, self.query.generation, effect.epoch, effect.run] = read
        rows = [passed_on(self.node.uid, row) for place in read for row in place]
        made = [self._staged(effect, channel, rows) for channel in self.node.writes]
        return Computed(tuple(each for each in made if each is not None), self._starts, None)

    def _rows(self, place: int) -> Rows:
        start, end, channel = json.loads(self._starts[place]), json.loads(self._ends[place]), self._places[place]
        if channel is None:
            return [(self.node.sources[place], number) for number in range(start, end)]
        read = self.node.reads[self.node.sources[place]]
        tasks = list(channel.parts(start, end))
        if read in self._around.keys:
            self._turns.rng.shuffle(tasks)  # they run side by side
        return self._around.rows_of(self._around.sinks[read], [rows for task in tasks for rows in task])

    def _staged(self, effect: Compute, channel: str, rows: Rows) -> Committable | None:
        mine = [row for row in rows if goes_to(channel, row)]
        if not mine:
            return None
        attempt = Attempt(
            sink=self.query.sink(channel),
            run=effect.run,
            run_token=effect.run_token,
            epoch=effect.epoch,
            task=0,
            task_attempt=0,
        )
        played = self._around.sinks[channel]
        if isinstance(played, PlayedChannel):
            self._turns.step()
            journal, handle = journal_of(mine), dict(played.begun(effect.run, mine))
            digest = committable_digest(attempt, repr(mine))
            return Committable(attempt=attempt, rows=len(mine), digest=digest, handle=handle, journal=journal)
        key = self._around.keys.get(channel)
        parts = {0: mine} if key is None else _parted(mine, key)
        journals = {number: self._journal(effect, channel, number, rows) for number, rows in parts.items()}
        digest = committable_digest(attempt, " ".join(each.checksum for each in journals.values()))
        return Committable(attempt=attempt, rows=len(mine), digest=digest, handle=handle_of(journals, key))

    def _journal(self, effect: Compute, channel: str, number: int, rows: Rows) -> JournalRef:
        name, data = f"{effect.epoch}/{channel}.{effect.run}.p{number}.arrow", repr(rows).encode()
        open_storage(rows_folder(self._around.sinks[channel].folder, JOB_ID, self.query.generation)).replace(name, data)
        self._around.rows[name] = rows
        return JournalRef(name=name, rows=len(rows), size_bytes=len(data), checksum=str(len(self._around.rows)))

    def await_finished(self, epoch: int) -> int:
        self._turns.wait(lambda: self._finished >= epoch or self.is_over)
        if self._finished < epoch:
            raise Refused("the run is ending")
        return self._finished

    def await_commits(self, epoch: int) -> bool:
        self._turns.wait(lambda: self._logged > epoch or self.is_over)
        return self._logged > epoch

    def hesitate(self, effect: Hesitate) -> None:
        self._turns.wait(None, 0.5)

    def tell(self, happening: Happening) -> None:
        if isinstance(happening, EpochDone):
            self._stands(happening.epoch)
            self._finished = happening.epoch
            if self.run is not None:
                self._tell_monitors(happening.epoch)

    def _tell_monitors(self, epoch: int) -> None:
        ends = list(zip(self.node.sources, self._read(epoch), strict=True))
        for source, monitor in self._monitors.items():
            self._turns.linger()
            monitor.tell([end for each, end in ends if each == source])

    def _monitor(self, source: str, channel: str) -> ChannelMonitor:
        def retained() -> Sequence[ChannelPosition]:
            found = rows_retained(JOB, channel)
            self._turns.linger()
            return found

        return ChannelMonitor(
            reader_of(self.node.uid, source), self._around.sinks[channel], self._around.live, retained
        )

    def _reach(self, _point: str, _epoch: int | None) -> None:
        if self._around.fails():
            raise Refused("it fails")

    def _opened(self) -> Run:
        if self.run is None:
            raise RuntimeError("it has no run yet")
        return self.run


def reader_of(query: str, source: str) -> str:
    """The name under which a query reads a channel."""
    return f"{query}/{source}"


def _parted(rows: Rows, key: ChannelKey) -> Mapping[int, Rows]:
    found: dict[int, Rows] = {}
    for row in rows:
        found.setdefault(key_of(row) % key.partitions, []).append(row)
    return found


def query_of(node: Node, record: JobRecord) -> Query:
    return Query(
        job=record.name,
        job_id=record.job_id,
        generation=record.generation,
        uid=node.uid,
        sources=tuple(node.sources),
        sinks=tuple(node.writes),
        local_lease=False,
    )


def folder_of(uid: str, generation: int) -> Folder:
    return generation_folder(JOB / QUERIES / uid, generation)


def offsets_of(ends: Sequence[str]) -> bytes:
    return "\n".join(["v1", '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}', *ends]).encode()
