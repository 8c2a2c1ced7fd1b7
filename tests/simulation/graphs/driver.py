"""One driver of the job: it recovers each query, runs them all, and takes one checkpoint after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from tests.simulation.graphs.graph import Node
from tests.simulation.graphs.query import JOB, AnyChannel, Around, Refused, RunOfQuery, folder_of, query_of, reader_of
from tests.simulation.graphs.restoring import restore
from tests.simulation.graphs.turns import Turns
from tidegate.channels.coordinator import Coordinator, JoinedQuery
from tidegate.checkpoints.manifests import Manifests
from tidegate.core.barriers import ALWAYS_ALIGNED, Alignment, AlignmentRule
from tidegate.core.channel_parts import ALL_LIVE, LiveParts
from tidegate.core.errors import TidegateError
from tidegate.core.records import ChannelKey, CheckpointRecord, DoneEpoch, JobRecord
from tidegate.savepoints.restored import live_parts
from tidegate.savepoints.running_job import CheckpointAborted

_PATIENT_SECONDS: Final = 1e9
_CHECKPOINTS_RETAINED: Final = 2
_EPOCHS_OF_A_READER: Final = (1, 3)
"""So many done epochs of a reader count, before rows are removed."""
RULES: Final = (
    ALWAYS_ALIGNED,
    ALWAYS_ALIGNED,
    AlignmentRule(Alignment.UNALIGNED),
    AlignmentRule(aligned_seconds=1.0),
    AlignmentRule(Alignment.AT_LEAST_ONCE),
)


class Canceled(Exception):
    """The checkpoint is canceled."""


class Surroundings(Protocol):
    """What a driver needs of its world."""

    turns: Turns
    nodes: list[Node]
    is_healed: bool

    record: JobRecord

    def around(
        self,
        sinks: Mapping[str, AnyChannel],
        record: JobRecord,
        live: LiveParts,
        fails: Callable[[], bool],
        keys: Mapping[str, ChannelKey],
    ) -> Around: ...
    def keys(self) -> Mapping[str, ChannelKey]: ...
    def judge(self, driver: Driver, snapshots: Mapping[str, DoneEpoch], alignment: Alignment) -> None: ...
    def channel(self, uid: str) -> AnyChannel: ...
    def counts(self, what: str) -> None: ...
    def is_newest(self, driver: Driver) -> bool: ...
    def has_restored(self, record: JobRecord, checkpoint: CheckpointRecord) -> None: ...


class Driver:
    """A process. `is_taking`: a checkpoint is under way, or waits for its turn. `is_quiet`: it takes none any more."""

    def __init__(self, world: Surroundings, checkpoint: CheckpointRecord | None = None) -> None:
        """`checkpoint`: the one that it restores before it starts."""
        self.is_dead = False
        self.sleeps_until = 0.0
        self.is_taking = False
        self.has_completed = False
        self.is_quiet = False
        self.runs: dict[str, RunOfQuery] = {}
        self.is_restoring = checkpoint is not None
        self.record = world.record
        self._checkpoint = checkpoint
        self._live = ALL_LIVE
        self._world = world
        self._turns = world.turns
        self._rng = world.turns.rng
        self._timeout = _PATIENT_SECONDS if world.is_healed else self._rng.choice((_PATIENT_SECONDS, 2.0, 8.0))
        self._doomed: RunOfQuery | None = None
        self._keys = world.keys()
        self.coordinator: Coordinator | None = None
        self.manifests: Manifests | None = None
        self._turns.spawn(self, self._start)

    # --- what can strike it ---------------------------------------------------------------------------------

    def fail(self) -> None:
        """A query alone fails, at its next step."""
        if self.runs:
            self._doomed = self._rng.choice(list(self.runs.values()))

    def abort(self) -> None:
        """Its checkpoint is aborted, as by a reader that starts."""
        if self.coordinator is not None:
            self._turns.spawn(self, self.coordinator.abort)

    def close(self) -> None:
        """The job ends in order."""
        self._turns.spawn(self, self._close)

    def _close(self) -> None:
        if self.coordinator is not None:
            self.coordinator.close("the job is ending")
            self._turns.wait(None, self._rng.uniform(0, 1))
        self.is_dead = True

    # --- its threads ----------------------------------------------------------------------------------------

    def _start(self) -> None:
        nodes = self._world.nodes
        if self._checkpoint is not None:
            self._restore(self._checkpoint)
        self._live = live_parts(JOB, self.record)
        sinks = {uid: self._world.channel(uid) for node in nodes for uid in node.writes}
        for uid, sink in sinks.items():
            _ = sink.log
            readers = {
                reader_of(each.uid, source) for each in nodes for source, read in each.reads.items() if read == uid
            }
            sink.passed.begin(frozenset(readers), self._rng.choice(_EPOCHS_OF_A_READER))
        joined = [_joined(node, sinks, self.record) for node in nodes]
        self.manifests = Manifests(JOB, _CHECKPOINTS_RETAINED)
        self._participants = Coordinator("job", joined, self._timeout, lambda: self._live)
        runs = [(node, self._again(node, sinks)) for node in nodes]
        self.coordinator = self._participants
        for node, run in runs:
            self._turns.spawn(self, partial(self._keep_running, node, sinks, run))
        self._take_checkpoints()

    def _opened(self, node: Node, sinks: Mapping[str, AnyChannel]) -> RunOfQuery:
        participant = self._participants.participant(node.uid)
        around = self._world.around(sinks, self.record, self._live, partial(self._fails, node.uid), self._keys)
        run = RunOfQuery(node, around, participant.let_in, participant.stands)
        run.recover()
        return run

    def _restore(self, checkpoint: CheckpointRecord) -> None:
        sinks = {uid: self._world.channel(uid) for node in self._world.nodes for uid in node.writes}
        around = self._world.around(sinks, self.record, ALL_LIVE, lambda: False, self._keys)

        def seal(node: Node) -> None:
            while True:
                try:
                    return RunOfQuery(node, around, lambda _epoch: None, lambda _epoch: None).seal()
                except (Refused, TidegateError) as error:
                    self._world.counts(f"a seal was tried again: {type(error).__name__}")
                    self._turns.wait(None, 0.1)

        self.record = restore(checkpoint, self.record, self._world.nodes, seal)
        self._world.has_restored(self.record, checkpoint)
        self.is_restoring = False

    def _keep_running(self, node: Node, sinks: Mapping[str, AnyChannel], run: RunOfQuery) -> None:
        """Start the query again whenever it fails, as long as this is the job's driver."""
        while True:
            self.runs[node.uid] = run
            if self._run(run) or not self._world.is_newest(self):
                return
            self._turns.wait(None, self._rng.uniform(0, 1))
            run = self._again(node, sinks)

    def _run(self, run: RunOfQuery) -> bool:
        """True if the query has read all of its input."""
        finisher = self._turns.spawn(self, run.finisher)
        try:
            run.stream()
        except (Refused, TidegateError) as error:
            self._world.counts(f"a run has failed: {type(error).__name__}")
        self._turns.wait(lambda: finisher.is_over)
        if run.is_done:
            self._world.counts("a query has ended")
        return run.is_done

    def _again(self, node: Node, sinks: Mapping[str, AnyChannel]) -> RunOfQuery:
        while True:
            try:
                return self._opened(node, sinks)
            except (Refused, TidegateError):
                self._turns.wait(None, 0.1)

    def _fails(self, uid: str) -> bool:
        doomed = self._doomed
        if doomed is None or doomed is not self.runs.get(uid) or self._world.is_healed:
            return False
        self._doomed = None
        self._world.counts("a query has failed")
        return True

    # --- its checkpoints ------------------------------------------------------------------------------------

    def _take_checkpoints(self) -> None:
        """One after the other; when nothing strikes any more until one is complete, and a last one that is aborted."""
        while not (self._world.is_healed and self.has_completed):
            self._turns.wait(None, self._rng.uniform(0, 4))
            self._take(self._rng.uniform(0, 2) if self._rng.random() < 0.2 else math.inf)
        self._take(self._rng.uniform(0, 2))
        self.is_quiet = True

    def _take(self, cut_off_seconds: float) -> None:
        """Take one checkpoint. It is canceled after this time."""
        ends_at = self._turns.now + cut_off_seconds
        self.is_taking = True

        def go_on() -> None:
            if self._turns.now > ends_at:
                raise Canceled

        snapshots: dict[str, DoneEpoch] = {}
        rule = self._rng.choice(RULES)
        try:
            with self._coordinator().checkpoint(go_on, rule) as taken:
                for done in taken:
                    snapshots[done.query] = done
                    self._turns.wait(None, self._rng.uniform(0, 0.1))
                alignment = taken.alignment
                self._world.judge(self, snapshots, alignment)
        except (Canceled, CheckpointAborted) as error:
            self._world.counts(f"a checkpoint has ended: {type(error).__name__}")
        except TidegateError as error:
            self._world.counts(f"a checkpoint was refused: {_why(error)}")
        else:
            self.has_completed = True
            if alignment is not rule.begin:
                self._world.counts("a checkpoint has overtaken rows after a while")
        self.is_taking = False

    def _coordinator(self) -> Coordinator:
        if self.coordinator is None:
            raise Refused("the driver is starting")
        return self.coordinator


def _joined(node: Node, sinks: Mapping[str, AnyChannel], record: JobRecord) -> JoinedQuery:
    return JoinedQuery(
        query=query_of(node, record),
        folder=folder_of(node.uid, record.generation),
        reads={source: sinks[channel] for source, channel in node.reads.items()},
        writes=tuple(sinks[channel] for channel in node.writes),
    )


def _why(error: TidegateError) -> str:
    if error.found in ("none yet", "the job is ending"):
        return error.found
    return "too slow" if "within" in error.expected else str(error)
