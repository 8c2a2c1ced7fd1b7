"""A query of a job as declared: everything that a run of it needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from tidegate.core.ledger import Query
from tidegate.sinks.base import TwoPhaseSink
from tidegate.spark.dead_letters import DeadLetters
from tidegate.spark.query_conf import StateStore
from tidegate.spark.sources.source import Monitor
from tidegate.storages.schemes import Folder


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """A query of a job as declared: its rows, output mode and sinks, and the protocol's view of it.

    `begun_at`: returns the rows for Spark to compute, given the position of each source in *start*, and a function that
    tells how long the newest epoch has taken. `conf`: Spark's configuration while the query starts. `store`: the way it
    keeps state. `monitors`: opens, for each source, the object that is told of its progress. `verify`: raises if the
    tasks of an epoch have not read exactly its input. `again_here`: True if the query may run again in this process
    after a failure. It is False with state in memory, which an interrupted epoch may have changed, and if each start
    opens a new generation. `operator_uids`: the uids of stateful operators, by their number in Spark's plan.
    `reads_from`: the queries whose channels it reads. `may_begin`: False while the next epoch of an unbounded run has
    to wait for the readers of a channel. `lets_in`: called just before an epoch begins to compute, when all epochs
    below are done. `stands`: called with each epoch that is done, and when the query has recovered, before the next one
    may begin.
    """

    query: Query
    rows: DataFrame
    begun_at: Callable[[Mapping[str, str], Callable[[], float | None]], DataFrame]
    mode: str
    sinks: Mapping[str, TwoPhaseSink]
    folder: Folder
    store: StateStore
    conf: Mapping[str, str]
    monitors: Callable[[], Mapping[str, Monitor]] = dict
    verify: Callable[[], None] = lambda: None
    timeout_seconds: float = math.inf
    min_pause_seconds: float = 0.0
    again_here: bool = True
    operator_uids: Mapping[str, str] = field(default_factory=dict[str, str])
    dead_letters: DeadLetters | None = None
    reads_from: frozenset[str] = frozenset()
    may_begin: Callable[[], bool] = lambda: True
    lets_in: Callable[[int], None] = lambda _epoch: None
    stands: Callable[[int], None] = lambda _epoch: None

    @property
    def journal(self) -> Folder:
        """The folder of its journal."""
        return self.folder / "ledger" / "journal"
