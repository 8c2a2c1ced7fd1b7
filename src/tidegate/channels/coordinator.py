"""Coordinates the checkpoints of a job whose queries are joined by channels, inside the driver of the job.

At most one checkpoint is under way. Each query takes part between two of its epochs: in its own thread, just before its
next epoch is let in, or in the thread that waits for the checkpoint, if the query has nothing to do. Its newest done
epoch is then its snapshot. This one rule serves a busy source, an idle one, a query that has ended, and a query that
has been restarted.

A checkpoint that is under way lives in this process alone. It ends with the driver: nothing of the queries depends on
it. Its caller compares the cut with the records of the job before the checkpoint counts (`savepoints.cut`), so that a
driver that was paused and has lost its job completes no checkpoint that is not a cut.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Lock

from tidegate.channels.channel import Channel, RowsBetween
from tidegate.channels.measuring import PartsTaken
from tidegate.checkpoints.done_epoch import done_epoch, finished_through
from tidegate.core.barriers import ALWAYS_ALIGNED, Alignment, AlignmentRule, Barriers, GraphQuery
from tidegate.core.channel_parts import ChannelPosition, LiveParts, part_of, position_in
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import Query
from tidegate.core.records import DoneEpoch, FinishedThrough, TakenPart
from tidegate.core.spark_log import positions_of
from tidegate.savepoints.running_job import CheckpointAborted, Snapshots
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class JoinedQuery:
    """A query of a job with channels. `folder`: that of its generation. `reads`: for each of its sources that reads a
    channel, that channel. `writes`: the channels that it writes.
    """

    query: Query
    folder: Folder
    reads: Mapping[str, Channel]
    writes: tuple[Channel, ...]

    def in_graph(self) -> GraphQuery:
        channels = {source: channel.uid for source, channel in self.reads.items()}
        return GraphQuery(self.query.uid, channels, tuple(channel.uid for channel in self.writes))


class Coordinator:
    """The checkpoints of one job, during one start. Threads share it."""

    def __init__(
        self,
        job: str,
        queries: Sequence[JoinedQuery],
        timeout_seconds: float,
        live: Callable[[], LiveParts],
        look_seconds: float = 0.1,
    ) -> None:
        """`queries`: in the order of the program: a writer comes before its readers. `timeout_seconds`: how long a
        checkpoint may take. `live`: returns the live parts of the channels. `look_seconds`: the time between two looks
        at the queries that have nothing to do; each look is a request where the ledger is not on a disk.
        """
        self._job = job
        self._timeout_seconds = timeout_seconds
        self._live = live
        self.look_seconds = look_seconds
        self._graph = [each.in_graph() for each in queries]
        self._channels = [channel for each in queries for channel in each.writes]
        self._participants = {each.query.uid: Participant(each, self) for each in queries}
        self._changed = Condition()
        self._turn = Lock()
        self._barriers: Barriers | None = None
        self._snapshots: dict[str, DoneEpoch] = {}
        self._measured = PartsTaken(self._graph)
        self._aligned_until = math.inf
        self._over = ""

    @property
    def number_of_queries(self) -> int:
        return len(self._participants)

    @property
    def measured(self) -> PartsTaken:
        """The queries that have taken part in the newest checkpoint."""
        return self._measured

    def has_taken_part(self, query: str) -> bool | None:
        """In the checkpoint that is under way; None if none is."""
        with self._changed:
            return None if self._barriers is None else self._barriers.has_taken_part(query)

    def participant(self, query: str) -> Participant:
        return self._participants[query]

    @contextmanager
    def checkpoint(self, go_on: Callable[[], None], alignment: AlignmentRule = ALWAYS_ALIGNED) -> Generator[Snapshots]:
        """A checkpoint, begun here. It ends with the context; what it has held flows on then.

        Yields each snapshot as soon as its query takes part. The caller holds the files of one snapshot before it asks
        for the next one: Spark removes them some epochs later. `go_on` is called while the caller waits, and may raise.

        Raises CheckpointAborted after `abort`. Raises SAVEPOINT_REFUSED if a query has no done epoch yet, if one does
        not take part in time, and if the job ends.
        """
        self._await_turn(go_on)
        try:
            barriers = self._begin(alignment)
            yield _SnapshotsTaken(self, barriers, time.monotonic() + self._timeout_seconds, go_on)
        finally:
            self._end()
            for channel in self._channels:
                channel.passed.release()
            self._turn.release()

    def abort(self) -> None:
        """End the checkpoint that is under way, if there is one; what it has held flows on. Another one may begin."""
        self._end()

    def close(self, why: str) -> None:
        """The job ends: end the checkpoint that is under way, and let no other begin. `why`: for the error."""
        with self._changed:
            self._over = why
            self._end()

    def look(self, query: str, stand: Callable[[], DoneEpoch | None]) -> None:
        """Let a query take part if it is to. `stand`: reads its newest done epoch; None if a later one is under way.

        Called by one thread of the query at a time.
        """
        with self._changed:
            barriers = self._barriers
        if barriers is None or barriers.has_taken_part(query):
            return
        done = stand()
        if done is None:
            return
        participant = self._participants[query]
        with self._changed:
            positions = participant.positions(done)
            if self._barriers is barriers and not barriers.waits_for(query, positions):
                self._measured.take_part(query, participant.held(barriers))
                barriers.take_part(query, participant.ends())
                participant.keep_rows(positions)
                participant.move_gates(barriers)
                self._snapshots[query] = done
                self._changed.notify_all()

    def look_at_all(self) -> None:
        """Let each query take part that has nothing to do, and is to."""
        with self._changed:
            if self._barriers is not None and time.monotonic() >= self._aligned_until:
                self._barriers.overtake()
        for participant in self._participants.values():
            participant.look()

    def unread(self, channel: Channel) -> int:
        """How many rows of a channel the slowest of its readers has left, by their done epochs."""
        live, ends = self._live(), channel.log.ends
        found = (each.places_in(channel) for each in self._participants.values())
        return max((live.unread(position, ends) for positions in found for position in positions), default=0)

    def next_snapshot(self, given: Collection[str], by: float, go_on: Callable[[], None]) -> DoneEpoch:
        """Wait for the snapshot of a query that is not in `given`. `by`: until when, by the monotonic clock."""
        while True:
            go_on()
            self.look_at_all()
            with self._changed:
                barriers = self._barriers
                if barriers is None:
                    if self.is_open:
                        raise CheckpointAborted
                    raise self._not_complete("every query to take part", self._over)
                for query, done in self._snapshots.items():
                    if query not in given:
                        return done
                is_late = time.monotonic() > by
                if not is_late:
                    self._changed.wait(self.look_seconds)
            if is_late:
                raise self._too_slow(barriers)

    @property
    def is_open(self) -> bool:
        """False when the job ends."""
        return not self._over

    def _await_turn(self, go_on: Callable[[], None]) -> None:
        while not self._turn.acquire(timeout=self.look_seconds):
            go_on()

    def _begin(self, alignment: AlignmentRule) -> Barriers:
        for query, participant in self._participants.items():
            if participant.reached() is None:
                raise self._not_complete(f"a done epoch of query {query}", "none yet")
        barriers = Barriers(self._graph, alignment.begin, self._live())
        with self._changed:
            if self._over:
                raise self._not_complete("a job that runs", self._over, "start it, and take it again")
            self._snapshots = {}
            self._measured = PartsTaken(self._graph)
            self._barriers = barriers
            self._aligned_until = time.monotonic() + alignment.aligned_seconds
        return barriers

    def _end(self) -> None:
        with self._changed:
            self._barriers = None
            for channel in self._channels:
                channel.gate.open()
            self._changed.notify_all()

    def _too_slow(self, barriers: Barriers) -> TidegateError:
        query = next(uid for uid in self._participants if not barriers.has_taken_part(uid))
        participant = self._participants[query]
        done = participant.newest()
        waits = barriers.waits_for(query, {} if done is None else participant.positions(done))
        left = ", ".join(
            f"channel {channel}: {'its writer has not taken part' if rows is None else f'{rows} rows to read'}"
            for channel, rows in waits.items()
        )
        expected = f"query {query} to take part within {self._timeout_seconds:g} s (checkpointing.timeout)"
        return self._not_complete(expected, left or "its epoch has not ended", "let it catch up, and take it again")

    def _not_complete(self, expected: str, found: str, next_step: str = "take it again") -> TidegateError:
        return TidegateError(
            Code.SAVEPOINT_REFUSED,
            expected=expected,
            found=found,
            where=f"job {self._job}",
            next_step=f"{next_step}; nothing of the job was changed",
        )


class _SnapshotsTaken:
    """The snapshots of the checkpoint that is under way. A query that takes part earlier comes earlier."""

    def __init__(self, coordinator: Coordinator, barriers: Barriers, by: float, go_on: Callable[[], None]) -> None:
        self._coordinator = coordinator
        self._barriers = barriers
        self._measured = coordinator.measured
        self._by = by
        self._go_on = go_on
        self._given: set[str] = set()
        self._looked_at = time.monotonic()

    def __iter__(self) -> Iterator[DoneEpoch]:
        while len(self._given) < self._coordinator.number_of_queries:
            done = self._coordinator.next_snapshot(self._given, self._by, self._go_on)
            self._given.add(done.query)
            yield done

    @property
    def alignment(self) -> Alignment:
        return self._barriers.alignment

    @property
    def taken(self) -> Mapping[str, TakenPart]:
        return self._measured.taken

    def go_on(self) -> None:
        self._go_on()
        if time.monotonic() - self._looked_at >= self._coordinator.look_seconds:
            self._coordinator.look_at_all()
            self._looked_at = time.monotonic()


class Participant:
    """One query in the checkpoints of its job."""

    def __init__(self, joined: JoinedQuery, coordinator: Coordinator) -> None:
        self._joined = joined
        self._coordinator = coordinator
        self._ledger = open_storage(joined.folder)
        self._lock = Lock()
        self._let_in = -1

    def may_begin(self) -> bool:
        """False while a reader has more rows left of a channel than the channel allows. The next epoch then waits."""
        bounded = ((channel, channel.max_unread) for channel in self._joined.writes)
        return all(bound is None or self._coordinator.unread(channel) <= bound for channel, bound in bounded)

    def places_in(self, channel: Channel) -> Sequence[ChannelPosition]:
        """Where it stands in a channel behind its newest done epoch, at each place in its plan: at the begin before the
        first one. Empty if it does not read this channel.
        """
        sources = [uid for uid, read in self._joined.reads.items() if read is channel]
        done = self._done_at(self.reached()) if sources else None
        if done is None:
            return [{} for _ in sources]
        found = self.positions(done)
        return [position for uid in sources for position in found[uid] or [{}]]

    def let_in(self, epoch: int) -> None:
        """In the query's own thread: every older epoch is done, and this one is to begin. It begins in any case: if the
        query cannot be looked at, the checkpoint that is under way is aborted.
        """
        with self._lock:
            try:
                self._coordinator.look(self._joined.query.uid, self.newest)
            except (OSError, TidegateError) as error:
                self._coordinator.abort()
                _LOG.warning("%s: the checkpoint that was under way is aborted: %s", self._joined.query, error)
            self._let_in = epoch

    def stands(self, epoch: int) -> None:
        """In any thread: this epoch is done, or the query has recovered, and the next one has not begun."""
        for channel in self._joined.writes:
            channel.stand(self._joined.query.sink(channel.uid), epoch)

    def look(self) -> None:
        """In any thread: let the query take part if it has nothing to do."""
        with self._lock:
            self._coordinator.look(self._joined.query.uid, self._between_epochs)

    def reached(self) -> FinishedThrough | None:
        """How far the query is done; None before its first epoch."""
        return finished_through(self._ledger)

    def newest(self) -> DoneEpoch | None:
        """The newest done epoch, also while a later one is under way."""
        return self._done(self.reached())

    def _between_epochs(self) -> DoneEpoch | None:
        """The newest done epoch, if the query is between two epochs."""
        reached = self.reached()
        return None if reached is None or reached.epoch < self._let_in else self._done(reached)

    def _done(self, reached: FinishedThrough | None) -> DoneEpoch | None:
        """This epoch; None if it is not known: a finisher of an older driver that was paused may have put
        *finished_through* back. The next epoch writes it anew.
        """
        done = self._done_at(reached)
        if done is None:
            return None
        if done.generation == self._joined.query.generation:
            self.stands(done.epoch)
        return None if self._has_published_behind(done) else done

    def _done_at(self, reached: FinishedThrough | None) -> DoneEpoch | None:
        """The records of this epoch; None if there are none."""
        return None if reached is None else done_epoch(self._joined.query, self._ledger, reached)

    def _has_published_behind(self, done: DoneEpoch) -> bool:
        newest = [channel.log.position(self._joined.query.uid) for channel in self._joined.writes]
        at = done.generation, done.epoch
        return any(each is not None and (each.generation, each.epoch) > at for each in newest)

    def positions(self, done: DoneEpoch) -> Mapping[str, Sequence[ChannelPosition]]:
        """For each source that reads a channel, where the query stands behind this epoch, at each place in its plan."""
        reads = self._joined.reads
        found: dict[str, list[ChannelPosition]] = {uid: [] for uid in reads}
        for uid, text in positions_of(done.sources, done.offsets):
            if uid in reads:
                position = None if text is None else position_in(text, reads[uid].uid)
                found[uid].append({} if position is None else position)
        return found

    def ends(self) -> Mapping[str, ChannelPosition]:
        """Where the channels end that the query writes."""
        return {channel.uid: channel.log.ends for channel in self._joined.writes}

    def held(self, barriers: Barriers) -> Sequence[RowsBetween]:
        """What waits for it behind each barrier at which it is held."""
        channels = {channel.uid: channel for channel in self._joined.reads.values()}
        found = ((each, barriers.held_at(self._joined.query.uid, uid)) for uid, each in channels.items())
        return [channel.between(at, channel.log.ends) for channel, at in found if at is not None]

    def keep_rows(self, positions: Mapping[str, Sequence[ChannelPosition]]) -> None:
        """The query takes part at these positions. While the checkpoint is under way, the rows behind them stay. So
        does the newest record of each channel that the query writes: the cut is compared with it.
        """
        for channel in self._joined.writes:
            ends = channel.log.ends or {part_of(channel.uid, self._joined.query.generation): 0}
            channel.passed.hold({part: at - 1 for part, at in ends.items()})
        for uid, places in positions.items():
            for position in places:
                self._joined.reads[uid].passed.hold(position)

    def move_gates(self, barriers: Barriers) -> None:
        """The query takes part: its readers are held at these barriers, and it is held no more."""
        for channel in self._joined.writes:
            barrier = barriers.at(channel.uid)
            if barrier is not None:
                channel.gate.shut(barrier, barriers.passing(channel.uid))
        for channel in self._joined.reads.values():
            channel.gate.let_pass(self._joined.query.uid)
