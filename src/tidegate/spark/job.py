"""The user's view: a job of queries, each from sources to sinks, run on Spark exactly once."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn

from pyspark.sql import DataFrame, SparkSession

from tidegate.checkpoints.drained import DrainRecord
from tidegate.checkpoints.job_layout import JOB_RECORD, QUERIES, generations
from tidegate.checkpoints.retained import QueryFolder, RetainedCheckpoints
from tidegate.checkpoints.retention import delete_checkpoints, go_on_deleting
from tidegate.checkpoints.tempo import Tempo
from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.core.fingerprints import NOTHING_ALLOWED
from tidegate.core.guarantees import Guarantee
from tidegate.core.ledger import START, Query, position_of
from tidegate.core.levels import Level
from tidegate.core.records import JobRecord, OperatorFingerprint, SinkIdentity, decode, encode
from tidegate.logs.subject import about
from tidegate.operate.app_check import CHECK_ONLY, CHECKED, NOTED
from tidegate.operate.forgetting import clear_sink
from tidegate.operate.guarantees import write_guarantees
from tidegate.operate.left_open import give_up_what_is_left
from tidegate.operate.place import JobPlace
from tidegate.operate.sinks import describe, write_sinks
from tidegate.savepoints.fresh import Fresh
from tidegate.savepoints.hold import RunningQuery
from tidegate.savepoints.restore import goes_back, settle
from tidegate.savepoints.restoring import Restore
from tidegate.savepoints.take import RunningJob, remove_held
from tidegate.settings.found import load_settings
from tidegate.settings.kinds import Backend, Retention
from tidegate.sinks.base import SinkPlan, TwoPhaseSink
from tidegate.sinks.dead_letters import SCHEMA as DEAD_LETTERS
from tidegate.sinks.staging import unwritable
from tidegate.spark.advice import Advice, advice_for, operators_without_uid, places_at_once
from tidegate.spark.clearing import Clearing
from tidegate.spark.clerk import Clerk
from tidegate.spark.companions import Companion
from tidegate.spark.declared import Declared, Given, checked_name, checked_uid, declare, program_error
from tidegate.spark.drain_errors import drain_of
from tidegate.spark.fresh import above_evidence, carry_out, fresh_target, wished
from tidegate.spark.function_sink import FunctionSink
from tidegate.spark.generations import generation_of
from tidegate.spark.guarantees import guarantees_of, rows_of, say_guarantees
from tidegate.spark.handle import JobHandle
from tidegate.spark.historian import Historian
from tidegate.spark.interrupts import (
    StoppedByInterrupt,
    interrupts_ask,
    interrupts_cancel_nothing,
    main_thread_waits,
    obey_signals,
)
from tidegate.spark.job_runs import RunRules
from tidegate.spark.levels import leaves_evidence, level_of, levels_of, nothing_to_catch_up_with
from tidegate.spark.listeners import Delivery, Listener
from tidegate.spark.operator_checks import allowed_changes, check_allowed, check_operators
from tidegate.spark.operator_fingerprints import fingerprints_of
from tidegate.spark.plan_check import check_for_hashmap, check_plan
from tidegate.spark.projection import sink_schema
from tidegate.spark.pulse import Pulse, shown_settings
from tidegate.spark.query_conf import STORES, epochs_kept, partitions_of, query_conf
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.restoring import JobRestore, open_restore, say_verdict
from tidegate.spark.retaining import Retaining
from tidegate.spark.savepointing import Savepoints
from tidegate.spark.session import adopt_session, is_local, lock_engine, open_session
from tidegate.spark.sources.opened import end_input, grounds_of, open_sources, recall, verify_read
from tidegate.spark.sources.socket import SocketSource
from tidegate.spark.sources.source import (
    Monitor,
    OpenedSource,
    PositionedSource,
    Source,
    SourceRegistry,
    keeps_nothing,
    vouch_for,
)
from tidegate.spark.state.backend import check_state, newest_offsets
from tidegate.spark.state.parquet import write_table
from tidegate.spark.state.plan import operators_planned
from tidegate.spark.supervised import begin_job, begin_program, current, start_moves
from tidegate.storages.check import check_storage
from tidegate.storages.leases import open_lease
from tidegate.storages.opening import open_storage
from tidegate.storages.storage import Storage


class Job:
    """A user program with a stable name: sources, queries and sinks.

    `settings` are those of `tidegate` with `_` for `.`: `checkpointing_dir="..."`, `checkpointing_interval="1s"`;
    `tidegate.toml`, the environment and `tidegate run -D` are stronger.
    `spark` is a classic session of the user's own; without it the active one, or a new one, is used.
    `listeners` are called with every `JobEvent`, each in a thread of its own; none of them can hold the job up or end
    it.
    """

    def __init__(
        self,
        name: str,
        *,
        spark: SparkSession | None = None,
        listeners: Sequence[Listener] = (),
        **settings: str | float,
    ) -> None:
        begin_program()
        self.name = checked_name(name)
        begin_job(self.name)
        self.settings = load_settings(settings, job=self.name)
        self._session = None if spark is None else adopt_session(spark, self.settings.state_backend)
        self._listeners = tuple(listeners)
        self._registry: SourceRegistry | None = None
        self._uids: set[str] = set()
        self._operators: set[str] = set()
        """Uids of stateful operators; those of a DataFrame that several queries go on from stand in each of them."""
        self._positioned: dict[str, PositionedSource] = {}
        self._keep_nothing: list[str] = []
        self._opened: dict[str, OpenedSource] = {}
        self._queries: list[Declared] = []
        self._fingerprints: dict[str, tuple[OperatorFingerprint, ...] | None] = {}
        self._allowed = NOTHING_ALLOWED

    @property
    def spark(self) -> SparkSession:
        """The job's SparkSession, started when first asked for."""
        if self._session is None:
            self._session = open_session(self.name, self.settings)
            start_moves("a session")
        return self._session

    def source(self, uid: str, source: Source | DataFrame) -> DataFrame:
        """An ordinary streaming DataFrame. `uid` is unique in the job and what a checkpoint knows the source by."""
        where = f"job {self.name}, source {uid}"
        checked_uid(uid, where, self._uids | self._operators)
        level = self.settings.checkpointing_mode
        own = source.ingested if isinstance(source, SocketSource) else source
        if isinstance(own, PositionedSource):
            recall(own, uid, self._folder())
        rows = source if isinstance(source, DataFrame) else source.load(self.spark, where, level)
        if isinstance(source, DataFrame):
            vouch_for(source, where, level)
        self._sources().add(uid, rows, where)
        self._uids.add(uid)
        if keeps_nothing(rows):
            self._keep_nothing.append(uid)
        if isinstance(own, PositionedSource):
            self._positioned[uid] = own
        start_moves(f"source {uid}, declared")
        return rows

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
        """Write `rows` into all `sinks` as one: by default every epoch is committed to each of them exactly once.

        `dead_letters` is a further sink. Rows that a sink cannot hold because of a value go into it, inside the same
        epoch; without it such a row ends the job. `max_dead` is how many of them one epoch may have: a number of rows,
        or, as a float, a share of the epoch's rows. More end the job.
        """
        where = f"job {self.name}, query {uid}"
        given = Given(uid, rows, mode, sinks, dead_letters, max_dead)
        level, sources = self.settings.checkpointing_mode, self._sources()
        declared = declare(given, sources, where, level=level, taken=self._uids, operators=self._operators)
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
        """Run the job in this process and block until it ends; Ctrl-C and SIGTERM stop it cleanly.

        `until="caught-up"` processes what is there now and ends; the next run goes on where this one stopped.
        `savepoint`, `fresh`, `allow_changed_operators`: see `start`.
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
        """Start the job and give a handle to wait for it, stop it, or ask how it is.

        Recovery of every query comes first; whatever stands against the start is raised with nothing half done. Ctrl-C
        meanwhile stops the job cleanly, and is raised when it has ended. `savepoint` is the folder that the job goes on
        from, in a new generation: once, for a job that was opened from it goes on from its own checkpoint.
        `tidegate run -s` is stronger. `fresh`: an id of the caller's, under which the job once opens a new, empty
        generation: its sources begin where the program says, and rows that are visible come again. What is decided is
        committed first. `tidegate run --fresh` is stronger. `allow_changed_operators`: stateful operators, by uid or as
        `query/number`, that may be others than those that the state was computed with; take it out again when the job
        has started.
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
            return self._start(wish, bounded=until == "caught-up")

    def _start(self, wish: Restore | Fresh | None, *, bounded: bool) -> JobHandle:
        folder = self._folder()
        if os.environ.get(CHECK_ONLY) == "1":
            self._only_check(folder, wish, bounded=bounded)
        unusable = check_storage(open_storage(folder))
        if unusable is not None:
            raise unusable
        supervised = current()
        if supervised is not None:
            supervised.declare(folder, self.settings)
        with ExitStack() as stack:
            lease = open_lease(folder).take(self.name, self.settings.lease_timeout)
            stack.callback(lease.release)
            stack.callback(lock_engine(self.spark, lease))
            start_moves("the job's locks")
            go_on_deleting(folder, partial(self._forget, folder))
            remove_held(folder)
            settle(folder)
            storage = open_storage(folder)
            record = self._record(storage)
            if isinstance(wish, Fresh):
                self._open_sources(folder, bounded, stack)
                record = self._begun_anew(wish, record, folder, bounded=bounded)
            else:
                with ExitStack() as aside:
                    restore = open_restore(wish, folder, self.name, self.settings.checkpointing_mode, aside)
                    if restore is not None:
                        self._open_sources(folder, bounded, aside, restore)
                        record = self._restored(restore, folder, bounded=bounded)
                self._open_sources(folder, bounded, stack)
            drain = drain_of(folder, record, self.settings.checkpointing_mode, bounded=bounded)
            handle = self._handle(record, folder, bounded=bounded, drain=drain)
            plans = self._check(handle)
            check_operators(handle.runs, record, folder)
            self._compare_sources(handle)
            storage.put_if_absent(JOB_RECORD, encode(record))
            self._describe_sinks(folder, record)
            for sink, plan in plans:
                sink.open(plan)
                start_moves(f"sink {sink.uid}, opened")
            if supervised is not None:
                supervised.starting(handle)
            else:
                obey_signals(handle)
            with interrupts_ask(handle.ask_to_stop) as interrupts, main_thread_waits():
                handle.start(at_end=stack.pop_all().close)
        if interrupts:
            handle.wait()
            raise StoppedByInterrupt
        if supervised is not None:
            supervised.started()
        return handle

    def _folder(self) -> Path:
        return Path(self.settings.checkpointing_dir).absolute() / self.name

    def _companions(self, folder: Path, record: JobRecord, plans: Sequence[QueryPlan]) -> list[Companion]:
        """In the order in which they hear of the end: who answers a request has told before how the job is, and both
        find the checkpoints gone that a cancel deletes."""
        own = [source.companion() for source in self._opened.values()]
        pulse = Pulse(folder, record.job_id, shown_settings(self.settings))
        clerk = Clerk(folder, pulse.incarnation, self._keep_nothing)
        return [
            *(each for each in own if each is not None),
            *(Delivery(self.name, each) for each in self._listeners),
            Advice(advice_for(self.name, self.settings, plans, self._uids | self._operators)),
            *self._retaining(folder, record, plans),
            *self._clearing(folder, record),
            Historian(folder),
            pulse,
            clerk,
        ]

    def _retaining(self, folder: Path, record: JobRecord, plans: Sequence[QueryPlan]) -> list[Companion]:
        """An at-most-once job keeps no checkpoints: none of its starts goes on from anything."""
        if self.settings.checkpointing_mode is Level.AT_MOST_ONCE:
            return []
        queries = [QueryFolder(plan.query, plan.folder) for plan in plans]
        retained = self.settings.checkpointing_retained
        return [Retaining(RetainedCheckpoints(folder, self.name, record.job_id, queries, retained))]

    def _handle(
        self,
        record: JobRecord,
        folder: Path,
        *,
        bounded: bool,
        only_look: bool = False,
        drain: DrainRecord | None = None,
    ) -> JobHandle:
        supervised, asked = current(), dict[str, str]()
        plans = [self._plan(each, record, folder, asked) for each in self._queries]
        return JobHandle(
            name=self.name,
            session=self.spark,
            plans=plans,
            rules=RunRules(
                bounded=bounded,
                interval_seconds=self.settings.checkpointing_interval,
                runs_due_epoch=self.settings.checkpointing_after_tasks_finish,
                tolerable_failures=self.settings.checkpointing_tolerable_failures,
                failed_epochs={} if supervised is None else supervised.failed_epochs,
                pause_after=None if supervised is None else supervised.pause_after,
            ),
            stop_timeout_seconds=self.settings.stop_timeout,
            companions=() if only_look else self._companions(folder, record, plans),
            drain=drain,
            savepoints=None if only_look else self._savepoints(folder, record, plans),
        )

    def _savepoints(self, folder: Path, record: JobRecord, plans: Sequence[QueryPlan]) -> Savepoints | None:
        if self.settings.checkpointing_mode is Level.AT_MOST_ONCE:
            return None
        queries = [RunningQuery(plan.query, plan.folder, epochs_kept(plan.conf)) for plan in plans]
        write = partial(write_table, self.spark)
        job = RunningJob(
            folder, record, queries, write_table=write, end_input=partial(end_input, self._opened.values())
        )
        return Savepoints(job, self.settings.savepoints_dir)

    def _restored(self, restore: JobRestore, folder: Path, *, bounded: bool) -> JobRecord:
        """Carry a restore out, when nothing stands against it nor against a start: *job.json* as it is then."""
        plans = self._looked_at(restore.target, folder, bounded=bounded)
        above = restore.above_evidence(plans, self.settings.checkpointing_mode)
        if above.target != restore.target:
            restore, plans = above, self._looked_at(above.target, folder, bounded=bounded)
        logs = tuple(log for source in self._opened.values() if (log := source.joined()) is not None)
        restore = replace(restore, logs=logs)
        restore.carry_out(plans, self.settings, self._compare_source, self.spark)
        return restore.target

    def _begun_anew(self, fresh: Fresh, record: JobRecord, folder: Path, *, bounded: bool) -> JobRecord:
        """Open an empty generation, when nothing stands against it nor against a start: *job.json* as it is then."""
        mode = self.settings.checkpointing_mode
        found = record if (folder / JOB_RECORD).exists() else None
        target = fresh_target(fresh, folder, self.name, found, mode)
        if target is None:
            return record
        plans = self._looked_at(target, folder, bounded=bounded)
        above = above_evidence(target, plans, mode)
        if above != target:
            target, plans = above, self._looked_at(above, folder, bounded=bounded)
        carry_out(fresh, target, found, folder, plans, self.settings)
        return target

    def _looked_at(self, target: JobRecord, folder: Path, *, bounded: bool) -> list[QueryPlan]:
        looked = self._handle(target, folder, bounded=bounded, only_look=True)
        self._check(looked)
        return [run.plan for run in looked.runs]

    def _only_check(self, folder: Path, wish: Restore | Fresh | None, *, bounded: bool) -> NoReturn:
        """What `tidegate check app.py` asks for: what stands against a start, and no start. Writes nothing."""
        flaw = unwritable(folder)
        if flaw is not None:
            raise TidegateError(
                Code.STORAGE_UNUSABLE,
                expected="a folder for the job's checkpoints that can be written",
                found=flaw,
                where=str(folder),
                next_step="give this user the right to write there, or name another checkpointing.dir",
            )
        with ExitStack() as stack:
            record = self._record(open_storage(folder))
            wish = None if isinstance(wish, Fresh) else wish
            restore = open_restore(wish, folder, self.name, self.settings.checkpointing_mode, stack, only_look=True)
            self._open_sources(folder, bounded, stack, restore, only_look=True)
            if restore is None:
                drain_of(folder, record, self.settings.checkpointing_mode, bounded=bounded)
            target = record if restore is None else restore.target
            handle = self._handle(target, folder, bounded=bounded, only_look=True)
            self._check(handle)
            if restore is None:
                check_operators(handle.runs, record, folder)
            for text in operators_without_uid((run.plan for run in handle.runs), self._uids | self._operators):
                print(f"{NOTED}{text}", file=sys.stderr, flush=True)
            if wish is not None:
                plans = [run.plan for run in handle.runs]
                say_verdict(restore, plans, self.settings, self._compare_source, self.spark)
        say_guarantees(self._guarantees())
        print(f"{CHECKED}{self.name}", file=sys.stderr, flush=True)
        sys.exit(0)

    def _describe_sinks(self, folder: Path, record: JobRecord) -> None:
        """What the command needs to reach them when this process is no more; those that were there before are asked
        for what they have left first, for nothing else knows of them."""
        mode = self.settings.checkpointing_mode
        sinks = {(each.uid, sink.uid): sink for each in self._queries for sink in each.sinks}
        described = [describe(query, sink, level_of(sink, mode)) for (query, _), sink in sinks.items()]
        give_up_what_is_left(JobPlace(folder, record), sinks, described, start_moves)
        write_sinks(open_storage(folder), described, self.settings.checkpointing_interval)
        write_guarantees(open_storage(folder), self._guarantees())

    def _guarantees(self) -> Sequence[Guarantee]:
        sources = rows_of(self._positioned, self._keep_nothing)
        return guarantees_of(self._queries, sources, self.settings.checkpointing_mode)

    def _clearing(self, folder: Path, record: JobRecord) -> list[Companion]:
        if self.settings.checkpointing_retention is not Retention.DELETE:
            return []
        return [Clearing(partial(delete_checkpoints, folder, record.job_id, partial(self._forget, folder)))]

    def _forget(self, folder: Path, job_id: str) -> None:
        """Let every sink forget the job that has this id: what is open, what is staged, what proves its commits."""
        for declared in self._queries:
            for sink in declared.sinks:
                if isinstance(sink, FunctionSink):
                    continue  # all it has is in the checkpoint
                own = partial(SinkIdentity, job=self.name, job_id=job_id, query=declared.uid, sink=sink.uid)
                numbers = generations(folder / QUERIES / declared.uid) or [1]
                clear_sink(sink, [own(generation=number) for number in numbers])

    def _record(self, storage: Storage) -> JobRecord:
        """*job.json*, or what it will be at the first start; a folder of another job is refused."""
        data, where = storage.read(JOB_RECORD), storage.where(JOB_RECORD)
        if data is None:
            return JobRecord(name=self.name, job_id=secrets.token_hex(4), generation=1)
        record = decode(JobRecord, data, where)
        if record.name != self.name:
            raise TidegateError(
                Code.JOB_MISMATCH,
                expected=f"the checkpoint of job {self.name}",
                found=f"that of job {record.name}",
                where=where,
                next_step="give this job another name or checkpointing.dir, or put its own checkpoint back",
            )
        return record

    def _plan(self, declared: Declared, record: JobRecord, folder: Path, asked: dict[str, str]) -> QueryPlan:
        place = folder / QUERIES / declared.uid
        mode = self.settings.checkpointing_mode
        levels = levels_of(declared.sinks, mode)
        where = f"job {self.name}, query {declared.uid}"
        generation = generation_of(place, mode, record.generation, where)
        query = Query(
            job=self.name,
            job_id=record.job_id,
            generation=generation,
            uid=declared.uid,
            sources=declared.sources,
            sinks=tuple(sink.uid for sink in declared.sinks),
            forgetful=frozenset(sink.uid for sink in declared.sinks if not leaves_evidence(sink, mode)),
            expiring=frozenset(sink.uid for sink in declared.sinks if sink.evidence_expires),
            max_concurrent=self._max_concurrent(declared),
            levels=levels,
            positions=self._positions(declared, place / f"g{generation}", asked),
            may_repeat=goes_back(folder, record, declared.uid),
            fingerprints=self._fingerprints_of(declared, where),
            allowed=self._allowed,
            dead_letters=None if declared.dead_letters is None else declared.dead_letters.sink,
        )
        plan = QueryPlan(
            query=query,
            rows=declared.rows,
            begun_at=partial(self._begun_at, declared, place / f"g{generation}" / "spark"),
            mode=declared.mode,
            sinks={sink.uid: sink for sink in declared.sinks},
            folder=place / f"g{generation}",
            store=STORES[self.settings.state_backend],
            conf=query_conf(self.settings, partitions_of(self.settings, self.spark, local=is_local(self.spark))),
            monitors=partial(self._monitors, declared),
            verify=partial(verify_read, self._opened, {uid: self._reader(declared, uid) for uid in declared.sources}),
            timeout_seconds=self.settings.checkpointing_timeout,
            min_pause_seconds=self.settings.checkpointing_min_pause,
            again_here=mode is not Level.AT_MOST_ONCE and self.settings.state_backend is Backend.ROCKSDB,
            dead_letters=declared.dead_letters,
        )
        if not declared.operators:
            return plan
        operators = operators_planned(self.spark, plan)
        start_moves(f"query {declared.uid}, planned")
        return replace(plan, operator_uids={str(each.number): each.uid for each in operators if each.uid})

    def _fingerprints_of(self, declared: Declared, where: str) -> tuple[OperatorFingerprint, ...] | None:
        """Read once: a query does not change any more."""
        if declared.uid not in self._fingerprints:
            self._fingerprints[declared.uid] = fingerprints_of(declared.rows, declared.mode, where)
            start_moves(f"query {declared.uid}, its operators read")
        return self._fingerprints[declared.uid]

    def _max_concurrent(self, declared: Declared) -> int:
        """How many decided epochs may still be uncommitted; one where a sink does not go with more, which is said by
        `advice`."""
        return 1 if places_at_once(declared.sinks) else self.settings.max_concurrent

    def _open_sources(
        self,
        folder: Path,
        bounded: bool,
        stack: ExitStack,
        restore: JobRestore | None = None,
        *,
        only_look: bool = False,
    ) -> None:
        """Open tidegate's own sources for this start, until `stack` ends; look at them where a restore is judged."""
        readers = {
            uid: frozenset(self._reader(each, uid) for each in self._queries if uid in each.sources)
            for uid, source in self._positioned.items()
            if restore is not None or not (only_look and source.writes)
        }
        grounds = grounds_of(self.name, self.spark, folder, readers, self.settings, bounded, restore)
        self._opened = open_sources(self._positioned, grounds, stack, only_look=restore is not None)

    def _reader(self, declared: Declared, source: str) -> str:
        return f"{self.name}.{declared.uid}.{source}"

    def _monitors(self, declared: Declared) -> Mapping[str, Monitor]:
        own = {uid: self._opened[uid] for uid in declared.sources if uid in self._opened}
        found = {uid: source.monitor(self._reader(declared, uid)) for uid, source in own.items()}
        return {uid: monitor for uid, monitor in found.items() if monitor is not None}

    def _positions(self, declared: Declared, folder: Path, asked: dict[str, str]) -> Mapping[str, str]:
        """Where tidegate's own sources begin, for a query without *start*. All queries of one start get one answer."""
        own = [uid for uid in declared.sources if uid in self._opened]
        if not own or open_storage(folder).read(START) is not None:
            return {}
        for uid in own:
            if uid not in asked:
                asked[uid] = self._opened[uid].begin(f"job {self.name}, source {uid}", self.settings.checkpointing_mode)
                start_moves(f"source {uid}, looked at")
        return {uid: asked[uid] for uid in own}

    def _begun_at(self, declared: Declared, log: Path, positions: Mapping[str, str]) -> DataFrame:
        """The rows of a query, its positioned sources beginning where *start* says."""
        own = {uid: self._opened[uid] for uid in declared.sources if uid in self._opened}
        tempo = Tempo(self.settings.checkpointing_interval, log, self.settings.checkpointing_timeout)
        streams: dict[str, DataFrame] = {}
        for uid, source in own.items():
            where, reader = f"job {self.name}, source {uid}", self._reader(declared, uid)
            streams[uid] = source.bound(self.spark, where, position_of(positions[uid]), tempo, reader)
        start_moves(f"query {declared.uid}, about to start")
        return self._sources().put_in_place(declared.rows, streams)

    def _check(self, handle: JobHandle) -> list[tuple[TwoPhaseSink, SinkPlan]]:
        """Everything that stands against the start, of all queries and sinks, in one error. Writes nothing."""
        plans: list[tuple[TwoPhaseSink, SinkPlan]] = []
        violations = list(check_allowed((run.plan for run in handle.runs), self._allowed, f"job {self.name}"))
        for run in handle.runs:
            plan = run.plan
            violations.extend(check_plan(plan.rows, plan.mode, str(plan.query)))
            violations.extend(check_state(plan.folder / "spark", self.settings.state_backend, str(plan.query)))
            if self.settings.state_backend is Backend.HASHMAP:
                violations.extend(check_for_hashmap(plan.rows, str(plan.query)))
            for sink in plan.sinks.values():
                try:
                    sink_plan = self._sink_plan(plan, sink, run.runner.read_journal)
                except TidegateError as error:
                    violations.append(error)
                else:
                    plans.append((sink, sink_plan))
                    with about(query=plan.query.uid):
                        violations.extend(sink.check(sink_plan))
                start_moves(f"sink {sink.uid}, checked")
        raise_all(violations, f"job {self.name}")
        return plans

    def _compare_sources(self, handle: JobHandle) -> None:
        """Each of tidegate's own sources with how far the queries have read in it."""
        for plan in (run.plan for run in handle.runs):
            reached = newest_offsets(plan.folder / "spark")
            for uid, position in zip(plan.query.sources, () if reached is None else reached.positions, strict=False):
                if position is not None:
                    self._compare_source(plan, uid, position)

    def _compare_source(self, plan: QueryPlan, uid: str, position: str) -> None:
        if uid in self._opened:
            self._opened[uid].compare(f"{plan.query}, source {uid}", position)

    def _sink_plan(self, plan: QueryPlan, sink: TwoPhaseSink, read_journal: Any) -> SinkPlan:
        identity: SinkIdentity = plan.query.sink(sink.uid)
        if isinstance(sink, FunctionSink):
            sink.attach(self.spark, plan.folder / "ledger")
        is_dead = plan.dead_letters is not None and sink.uid == plan.dead_letters.sink
        where = f"{plan.query}, sink {sink.uid}"
        return SinkPlan(
            identity=identity,
            schema=DEAD_LETTERS if is_dead else sink_schema(plan.rows, sink, where),
            mode="append" if is_dead else plan.mode,
            local_master=is_local(self.spark),
            read_journal=read_journal,
            interval_seconds=self.settings.checkpointing_interval,
        )

    def _sources(self) -> SourceRegistry:
        if self._registry is None:
            self._registry = SourceRegistry(self.spark)
        return self._registry
