"""A job as its program declares it, and as one start would run it. Both are values without threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from tidegate.channels.channel import Channel
from tidegate.core.fingerprints import Allowed
from tidegate.core.records import JobRecord, OperatorFingerprint
from tidegate.settings.config import Settings
from tidegate.spark.channels import writers_of
from tidegate.spark.companions import Companion
from tidegate.spark.declared import DeclaredQuery
from tidegate.spark.listeners import Listener
from tidegate.spark.old_declaration import Again
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.sources.declaring import DeclaredSource
from tidegate.spark.sources.source import PositionedSource
from tidegate.spark.sources.streams import SourceRegistry
from tidegate.storages.schemes import Folder


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredJob:
    """A job as its program declares it, when it is started.

    `uids`: those of its sources, queries, sinks and stateful operators. `inputs`: its sources, by uid.
    `fingerprints`: by query, read when first needed, for a query does not change any more. `allowed`: the operators
    that may be others than those of the state. `asked`: the questions of its declaration, to ask them again. `beside`:
    further companions of the job.
    """

    name: str
    session: SparkSession
    settings: Settings
    queries: tuple[DeclaredQuery, ...]
    registry: SourceRegistry
    inputs: Mapping[str, DeclaredSource]
    uids: frozenset[str]
    listeners: tuple[Listener, ...]
    allowed: Allowed
    asked: tuple[Again, ...]
    beside: tuple[Companion, ...] = ()
    fingerprints: dict[str, tuple[OperatorFingerprint, ...] | None] = field(
        default_factory=dict[str, "tuple[OperatorFingerprint, ...] | None"]
    )

    @property
    def positioned(self) -> Mapping[str, PositionedSource]:
        """Tidegate's own sources, by uid."""
        return {uid: each.positioned for uid, each in self.inputs.items() if each.positioned is not None}

    @property
    def folder(self) -> Folder:
        return Folder.of(self.settings.checkpointing_dir) / self.name

    @property
    def has_channels(self) -> bool:
        """True if a query writes a channel, even if none reads it yet."""
        return any(isinstance(sink, Channel) for query in self.queries for sink in query.sinks)

    def written_for(self, query: DeclaredQuery) -> frozenset[str]:
        """The queries that write the channels which this query reads."""
        return writers_of([self.inputs[uid].positioned for uid in query.sources], self.queries)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A job as one start would run it. `record`: the current or future *job.json*. `compare_source` raises if the
    source of a uid is not the one in which the query has reached this position.
    """

    record: JobRecord
    folder: Folder
    session: SparkSession
    settings: Settings
    queries: tuple[QueryPlan, ...]
    compare_source: Callable[[QueryPlan, str, str], None] = lambda _plan, _uid, _position: None

    @property
    def where(self) -> str:
        return f"job {self.record.name}"
