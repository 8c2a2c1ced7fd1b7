"""The user's view: a job of queries, each from sources to sinks, run on Spark exactly once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from pyspark.sql import DataFrame, SparkSession

from tidegate.channels.channel import Channel
from tidegate.channels.sink import ChannelSink, EmbeddedChannel
from tidegate.checkpoints.job_layout import CHANNELS
from tidegate.core.errors import Code
from tidegate.core.fingerprints import NOTHING_ALLOWED
from tidegate.core.levels import Level
from tidegate.core.records import OperatorFingerprint
from tidegate.logs.subject import about
from tidegate.savepoints.restoring import Restore
from tidegate.settings.found import load_settings
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sources.base import RowSource
from tidegate.spark.app_checking import check_only, only_checks
from tidegate.spark.channels import declared_channel, demand_bound
from tidegate.spark.declared import (
    DeclaredQuery,
    QueryArguments,
    checked_name,
    checked_uid,
    declare_query,
    program_error,
)
from tidegate.spark.fresh import wished
from tidegate.spark.handle import JobHandle
from tidegate.spark.interrupts import StoppedByInterrupt, interrupts_cancel_nothing
from tidegate.spark.job_plan import DeclaredJob
from tidegate.spark.levels import nothing_to_catch_up_with
from tidegate.spark.listeners import Listener
from tidegate.spark.notebook import job_html
from tidegate.spark.old_declaration import Again, settings_again, source_again
from tidegate.spark.operator_checks import allowed_changes
from tidegate.spark.page_of_job import PageOfJob
from tidegate.spark.session import adopt_session, open_session
from tidegate.spark.sources.declaring import DeclaredSource, Through, declare_source
from tidegate.spark.sources.opened import recall
from tidegate.spark.sources.source import StreamLoader
from tidegate.spark.sources.streams import SourceRegistry
from tidegate.spark.standing_by import stand_by
from tidegate.spark.starting import start
from tidegate.spark.supervised import begin_job, begin_program, start_moves
from tidegate.spark.until import Until
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from tidegate.channels.kafka import KafkaChannel, KafkaChannelSink


class Job:
    """A user program with a stable name: sources, queries and sinks.

    `settings` are tidegate's settings with `_` for `.`: `checkpointing_dir="..."`, `checkpointing_interval="1s"`.
    `tidegate.toml`, the environment and `tidegate run -D` override them.

    `spark`: a classic session of the user's own; by default the active one, or a new one.

    `listeners` are called with every `JobEvent`, each in a thread of its own. They can neither delay nor end the job.

    `ui=True` shows the jobs of its `checkpointing_dir` in a web page while the job runs, at the address of `ui_host`
    and `ui_port`, which is printed once. If the page cannot be opened, a warning says why, and the job runs.
    """

    def __init__(
        self,
        name: str,
        *,
        spark: SparkSession | None = None,
        listeners: Sequence[Listener] = (),
        ui: bool = False,
        **settings: str | float,
    ) -> None:
        begin_program()
        self.name = checked_name(name)
        begin_job(self.name)
        self.settings = load_settings(settings, job=self.name)
        self._asked: list[Again] = [partial(settings_again, self.name, settings, self.settings)]
        self._session = None if spark is None else adopt_session(spark, self.settings.state_backend)
        self._listeners = tuple(listeners)
        self._beside = (PageOfJob(self.settings),) if ui else ()
        self._registry: SourceRegistry | None = None
        self._uids: set[str] = set()
        self._operators: set[str] = set()
        """Uids of stateful operators. Queries that share a DataFrame share the uids of its operators."""
        self._inputs: dict[str, DeclaredSource] = {}
        self._queries: list[DeclaredQuery] = []
        self._fingerprints: dict[str, tuple[OperatorFingerprint, ...] | None] = {}
        self._allowed = NOTHING_ALLOWED

    @property
    def spark(self) -> SparkSession:
        """The job's SparkSession, created at first use."""
        if self._session is None:
            self._session = open_session(self.name, self.settings)
            start_moves("a session")
        return self._session

    def channel(
        self, uid: str, over: EmbeddedChannel | KafkaChannel | None = None, *, max_unread: int | None = None
    ) -> ChannelSink | KafkaChannelSink:
        """A channel: rows that one query of the job writes, and other queries of the job read.

        Give it to exactly one query as a sink: `job.query(..., sinks=[channel])`. Then read it as a source, in any
        number of queries: `job.source("...", channel)`. `uid` is that of the sink. The rows of an epoch appear
        together, when the epoch is committed. `over`: None for an embedded channel, which needs no broker: the rows are
        in the job's folder until every reader has passed them. An `EmbeddedChannel` has a key besides: rows with the
        same key are read in their order. With a `KafkaChannel` the rows are in its topic.

        `max_unread`: while a reader has more rows left than this, the writer begins no epoch; None: it never waits. A
        run until caught-up does not wait: its readers start when the writer has ended.
        """
        where = f"job {self.name}, channel {uid}"
        checked_uid(uid, where, self._uids | self._operators)
        demand_bound(max_unread, where)
        folder = self._folder / CHANNELS / uid
        return ChannelSink(uid, folder, max_unread) if over is None else over.sink(uid, folder, max_unread)

    def source(
        self, uid: str, source: StreamLoader | RowSource | DataFrame | Channel, *, durable: bool = False
    ) -> DataFrame:
        """An ordinary streaming DataFrame. `uid` is unique in the job; a checkpoint stores positions under it.

        `durable=True` is for a source that cannot be read again: its rows are kept in an ingest log in the job's
        folder before an epoch has them, and every level holds from there on.
        """
        where = f"job {self.name}, source {uid}"
        checked_uid(uid, where, self._uids | self._operators)
        level, through = self.settings.checkpointing_mode, Through.LOG if durable else Through.SOURCE
        folder = self._folder
        remembered = partial(recall, uid=uid, folder=folder)
        given = declared_channel(source, self._queries, where) if isinstance(source, Channel) else source
        declare = partial(declare_source, uid, given, self.spark, where, level, through, folder, remembered)
        declared = declare()
        self._asked.append(partial(source_again, where, declare, declared))
        self._sources().add(uid, declared.rows, where)
        self._uids.add(uid)
        self._inputs[uid] = declared
        start_moves(f"source {uid}, declared")
        return declared.rows

    def query(
        self,
        uid: str,
        rows: DataFrame,
        *,
        sinks: Sequence[TwoPhaseSink],
        mode: Literal["append", "update", "complete"] = "append",
        dead_letters: TwoPhaseSink | None = None,
        max_dead: float | None = None,
    ) -> None:
        """Write `rows` into all `sinks`: by default every epoch is committed to each of them exactly once.

        `dead_letters` is a further sink, for rows that another sink refuses because of a value. They are written in the
        same epoch. Without it such a row ends the job. `max_dead`: the limit of these rows in one epoch, as a number of
        rows, or as a float: a share of the epoch's rows. More of them end the job.
        """
        where = f"job {self.name}, query {uid}"
        given = QueryArguments(uid, rows, mode, sinks, dead_letters, max_dead)
        level, sources = self.settings.checkpointing_mode, self._sources()
        declared = declare_query(given, sources, where, level=level, taken=self._uids, operators=self._operators)
        self._queries.append(declared)
        self._uids |= {uid, *(sink.uid for sink in declared.sinks)}
        self._operators |= {*declared.operators}

    def run(
        self,
        *,
        until: Literal["caught-up"] | None = None,
        savepoint: str | os.PathLike[str] | Restore | None = None,
        fresh: str | None = None,
        allow_changed_operators: Sequence[str] = (),
    ) -> None:
        """Run the job in this process and block until it ends. Ctrl-C and SIGTERM stop it cleanly.

        `until="caught-up"` processes the existing input and ends; the next run resumes there. `savepoint`, `fresh`,
        `allow_changed_operators`: see `start`.
        """
        with interrupts_cancel_nothing():
            try:
                handle = self.start(
                    until=until, savepoint=savepoint, fresh=fresh, allow_changed_operators=allow_changed_operators
                )
            except StoppedByInterrupt:
                return
            handle.wait()

    def start(
        self,
        *,
        until: Literal["caught-up"] | None = None,
        savepoint: str | os.PathLike[str] | Restore | None = None,
        fresh: str | None = None,
        allow_changed_operators: Sequence[str] = (),
    ) -> JobHandle:
        """Start the job and return a handle to wait for it, stop it, or read its state.

        Recovery of every query comes first. Errors that prevent the start are raised, and nothing is left half done.
        Ctrl-C during the start stops the job cleanly, and is raised after it has ended.

        `savepoint`: the folder from which the job resumes, in a new generation. This happens once: after that the job
        resumes from its own checkpoint. `tidegate run -s` overrides it.

        `fresh`: an id that the caller chooses. For each id the job opens a new, empty generation once: its sources
        begin where the program sets it, and visible rows are repeated. Decided epochs are committed first. `tidegate
        run --fresh` overrides it.

        `allow_changed_operators`: stateful operators, by uid or as `query/number`, that may differ from those that
        computed the state. Remove it after the job has started.
        """
        if until not in (None, "caught-up"):
            raise program_error(Code.OPTION_UNKNOWN, 'until="caught-up" or none', repr(until), f"job {self.name}")
        if until == "caught-up" and self.settings.checkpointing_mode is Level.AT_MOST_ONCE:
            raise nothing_to_catch_up_with(f"job {self.name}")
        if not self._queries:
            raise program_error(Code.JOB_EMPTY, "at least one query", "none", f"job {self.name}")
        self._allowed = allowed_changes(allow_changed_operators)
        with about(job=self.name), interrupts_cancel_nothing():
            wish = wished(savepoint, fresh, f"job {self.name}")
            job, ends = self._declared(), Until.ASKED if until is None else Until.CAUGHT_UP
            if only_checks():
                check_only(job, wish, until=ends)
            stand_by(job)
            return start(job, wish, until=ends)

    def _repr_html_(self) -> str:
        """In a notebook: how the job is; before its first start, what the program has declared so far."""
        return job_html(self._folder, self._queries, self._inputs, self.settings.checkpointing_mode)

    def _declared(self) -> DeclaredJob:
        return DeclaredJob(
            name=self.name,
            session=self.spark,
            settings=self.settings,
            queries=tuple(self._queries),
            registry=self._sources(),
            inputs=self._inputs,
            uids=frozenset(self._uids | self._operators),
            listeners=self._listeners,
            allowed=self._allowed,
            asked=tuple(self._asked),
            beside=self._beside,
            fingerprints=self._fingerprints,
        )

    @property
    def _folder(self) -> Folder:
        return Folder.of(self.settings.checkpointing_dir) / self.name

    def _sources(self) -> SourceRegistry:
        if self._registry is None:
            self._registry = SourceRegistry(self.spark)
        return self._registry
