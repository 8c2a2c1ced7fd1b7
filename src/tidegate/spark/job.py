"""The user's view: a job of queries, each from sources to sinks, run on Spark exactly once."""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession

from tidegate.checkpoints.locks import acquire, wait_for_jvm_lock
from tidegate.checkpoints.retained import QueryFolder, RetainedCheckpoints
from tidegate.checkpoints.retention import JOB_RECORD, QUERIES, delete_checkpoints, go_on_deleting
from tidegate.checkpoints.storage import LocalStorage, check_folder
from tidegate.checkpoints.tempo import Tempo
from tidegate.core.config import Backend, Retention, Settings
from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.core.ledger import START, Query, position_of
from tidegate.core.levels import Level
from tidegate.core.records import JobRecord, SinkIdentity, decode, encode
from tidegate.sinks.base import SinkPlan, TwoPhaseSink
from tidegate.spark.companions import Companion
from tidegate.spark.function_sink import FunctionSink
from tidegate.spark.generations import check_nothing_comes_again, generation_of, generations
from tidegate.spark.handle import JobHandle
from tidegate.spark.levels import check_levels, leaves_evidence, levels_of, nothing_to_catch_up_with
from tidegate.spark.plan_check import check_plan
from tidegate.spark.projection import sink_schema
from tidegate.spark.query_run import QueryPlan
from tidegate.spark.retaining import Retaining
from tidegate.spark.session import JvmLock, adopt_session, interrupts_cancel_nothing, is_local, open_session
from tidegate.spark.sources import FileSource, Monitor, PositionedSource, Source, SourceRegistry, vouch_for
from tidegate.spark.state_backend import check_state

_LOG = logging.getLogger("tidegate")
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_MODES = ("append", "update", "complete")
_OLD_JVM_SECONDS = 15.0


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """A query as the program declared it."""

    uid: str
    rows: DataFrame
    mode: str
    sources: tuple[str, ...]
    sinks: tuple[TwoPhaseSink, ...]


class Job:
    """A user program with a stable name: sources, queries and sinks.

    `settings` are those of `tidegate` with `_` for `.`: `checkpointing_dir="..."`, `checkpointing_interval="1s"`.
    `spark` is a classic session of the user's own; without it the active one, or a new one, is used.
    """

    def __init__(self, name: str, *, spark: SparkSession | None = None, **settings: str | float) -> None:
        self.name = _checked_uid(name, "the job's name", set())
        self.settings = Settings.load(code=settings, environment=os.environ)
        self._session = None if spark is None else adopt_session(spark)
        self._registry: SourceRegistry | None = None
        self._uids: set[str] = set()
        self._left_out: dict[str, frozenset[str]] = {}
        self._positioned: dict[str, PositionedSource] = {}
        self._queries: list[Declared] = []

    @property
    def spark(self) -> SparkSession:
        """The job's SparkSession, started when first asked for."""
        if self._session is None:
            self._session = open_session(self.name)
        return self._session

    def source(self, uid: str, source: Source | DataFrame) -> DataFrame:
        """An ordinary streaming DataFrame. `uid` is unique in the job and what a checkpoint knows the source by."""
        where = f"job {self.name}, source {uid}"
        _checked_uid(uid, where, self._uids)
        level = self.settings.checkpointing_mode
        rows = source if isinstance(source, DataFrame) else source.load(self.spark, where, level)
        if isinstance(source, DataFrame):
            vouch_for(source, where, level)
        self._sources().add(uid, rows, where)
        self._uids.add(uid)
        if isinstance(source, FileSource):
            self._left_out[uid] = source.left_out
        if isinstance(source, PositionedSource):
            self._positioned[uid] = source
        return rows

    def query(
        self,
        uid: str,
        rows: DataFrame,
        *,
        sinks: Sequence[TwoPhaseSink],
        mode: Literal["append", "update", "complete"] = "append",
    ) -> None:
        """Write `rows` into all `sinks` as one: by default every epoch is committed to each of them exactly once."""
        where = f"job {self.name}, query {uid}"
        taken = {*self._uids}
        for name, what in [(uid, "the query"), *((sink.uid, "a sink") for sink in sinks)]:
            taken.add(_checked_uid(name, f"{where}, {what}", taken))
        if mode not in _MODES:
            raise _program_error(Code.OUTPUT_MODE, f"one of {', '.join(_MODES)}", repr(mode), where)
        if not sinks:
            raise _program_error(Code.JOB_EMPTY, "at least one sink", "none", where)
        sources = self._sources().uids_of(rows, where)
        check_levels(sinks, self.settings.checkpointing_mode, where)
        self._queries.append(Declared(uid=uid, rows=rows, mode=mode, sources=sources, sinks=tuple(sinks)))
        self._uids = taken

    def run(self, *, until: Literal["caught-up"] | None = None) -> None:
        """Run the job in this process and block until it ends; Ctrl-C stops it cleanly.

        `until="caught-up"` processes what is there now and ends; the next run goes on where this one stopped.
        """
        handle = self.start(until=until)
        with interrupts_cancel_nothing():
            try:
                handle.wait()
            except KeyboardInterrupt:
                handle.stop()

    def start(self, *, until: Literal["caught-up"] | None = None) -> JobHandle:
        """Start the job and give a handle to wait for it, stop it, or ask how it is.

        Recovery of every query comes first; whatever stands against the start is raised with nothing half done.
        """
        if until not in (None, "caught-up"):
            raise _program_error(Code.OPTION_UNKNOWN, 'until="caught-up" or none', repr(until), f"job {self.name}")
        if until == "caught-up" and self.settings.checkpointing_mode is Level.AT_MOST_ONCE:
            raise nothing_to_catch_up_with(f"job {self.name}")
        if not self._queries:
            raise _program_error(Code.JOB_EMPTY, "at least one query", "none", f"job {self.name}")
        folder = Path(self.settings.checkpointing_dir).absolute() / self.name
        unusable = check_folder(folder)
        if unusable is not None:
            raise unusable
        with ExitStack() as stack:
            lock = acquire(folder, self.name)
            stack.callback(lock.release)
            wait_for_jvm_lock(folder, _OLD_JVM_SECONDS)
            jvm_lock = JvmLock(self.spark, folder)
            stack.callback(jvm_lock.release)
            go_on_deleting(folder, partial(self._forget, folder))
            storage = LocalStorage(folder)
            record = self._record(storage)
            asked: dict[str, str] = {}
            plans = [self._plan(each, record, folder, asked) for each in self._queries]
            handle = JobHandle(
                name=self.name,
                session=self.spark,
                plans=plans,
                interval_seconds=self.settings.checkpointing_interval,
                bounded=until == "caught-up",
                tolerable_failures=self.settings.checkpointing_tolerable_failures,
                runs_due_epoch=self.settings.checkpointing_after_tasks_finish,
                companions=self._companions(record, folder, plans),
            )
            checked = self._check(handle)
            storage.put_if_absent(JOB_RECORD, encode(record))
            for sink, plan in checked:
                sink.open(plan)
            handle.start()
            handle.watch(at_end=stack.pop_all().close, after_cancel=partial(self._after_cancel, folder, record.job_id))
            return handle

    def _after_cancel(self, folder: Path, job_id: str) -> None:
        if self.settings.checkpointing_retention is Retention.DELETE:
            delete_checkpoints(folder, job_id, partial(self._forget, folder))

    def _forget(self, folder: Path, job_id: str) -> None:
        """Let every sink forget the job that has this id: what is open, what is staged, what proves its commits."""
        for declared in self._queries:
            for sink in declared.sinks:
                for generation in generations(folder / QUERIES / declared.uid) or [1]:
                    identity = SinkIdentity(
                        job=self.name, job_id=job_id, generation=generation, query=declared.uid, sink=sink.uid
                    )
                    if isinstance(sink, FunctionSink):
                        continue  # all it has is in the checkpoint
                    sink.abort(sink.pending(identity))
                    sink.discard(identity, 0)
                    sink.forget(identity)

    def _companions(self, record: JobRecord, folder: Path, plans: Sequence[QueryPlan]) -> list[Companion]:
        """An at-most-once job keeps no checkpoints: none of its starts goes on from anything."""
        if self.settings.checkpointing_mode is Level.AT_MOST_ONCE:
            return []
        queries = [QueryFolder(plan.query, plan.folder) for plan in plans]
        retained = self.settings.checkpointing_retained
        return [Retaining(RetainedCheckpoints(folder, self.name, record.job_id, queries, retained))]

    def _record(self, storage: LocalStorage) -> JobRecord:
        """*job.json*, or what it will be at the first start; a folder of another job is refused."""
        data, where = storage.read(JOB_RECORD), str(storage.path(JOB_RECORD))
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
        if mode is Level.AT_MOST_ONCE:
            left_out = frozenset[str]().union(*(self._left_out.get(uid, ()) for uid in declared.sources))
            check_nothing_comes_again(place, left_out, where)
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
            max_concurrent=self._max_concurrent(declared, where),
            levels=levels,
            positions=self._positions(declared, place / f"g{generation}", asked),
        )
        return QueryPlan(
            query=query,
            rows=declared.rows,
            begun_at=partial(self._begun_at, declared, place / f"g{generation}" / "spark"),
            mode=declared.mode,
            sinks={sink.uid: sink for sink in declared.sinks},
            folder=place / f"g{generation}",
            monitors=partial(self._monitors, declared),
            timeout_seconds=self.settings.checkpointing_timeout,
            min_pause_seconds=self.settings.checkpointing_min_pause,
            again_here=mode is not Level.AT_MOST_ONCE and self.settings.state_backend is Backend.ROCKSDB,
        )

    def _max_concurrent(self, declared: Declared, where: str) -> int:
        """How many decided epochs may still be uncommitted; one where something does not go with more, and said."""
        wanted = self.settings.checkpointing_max_concurrent
        placed = [sink.uid for sink in declared.sinks if sink.prepared_rows_have_their_place]
        if wanted == 1 or not (placed or self.settings.checkpointing_min_pause):
            return wanted
        because = (
            f"the rows that sink {placed[0]} prepares already have their place among those of later epochs"
            if placed
            else "checkpointing.min_pause begins when an epoch is committed"
        )
        _LOG.warning("%s: checkpointing.max_concurrent is 1 and not %d: %s", where, wanted, because)
        return 1

    def _monitors(self, declared: Declared) -> Mapping[str, Monitor]:
        own = {uid: self._positioned[uid] for uid in declared.sources if uid in self._positioned}
        found = {uid: source.monitor(f"{self.name}.{declared.uid}.{uid}") for uid, source in own.items()}
        return {uid: monitor for uid, monitor in found.items() if monitor is not None}

    def _positions(self, declared: Declared, folder: Path, asked: dict[str, str]) -> Mapping[str, str]:
        """Where tidegate's own sources begin, for a query without *start*. All queries of one start get one answer."""
        own = [uid for uid in declared.sources if uid in self._positioned]
        if not own or LocalStorage(folder).read(START) is not None:
            return {}
        for uid in own:
            if uid not in asked:
                asked[uid] = self._positioned[uid].begin(
                    f"job {self.name}, source {uid}", self.settings.checkpointing_mode
                )
        return {uid: asked[uid] for uid in own}

    def _begun_at(self, declared: Declared, log: Path, positions: Mapping[str, str]) -> DataFrame:
        """The rows of a query, its positioned sources beginning where *start* says."""
        own = {uid: self._positioned[uid] for uid in declared.sources if uid in self._positioned}
        tempo = Tempo(self.settings.checkpointing_interval, log)
        streams = {
            uid: source.bound(self.spark, f"job {self.name}, source {uid}", position_of(positions[uid]), tempo)
            for uid, source in own.items()
        }
        return self._sources().put_in_place(declared.rows, streams)

    def _check(self, handle: JobHandle) -> list[tuple[TwoPhaseSink, SinkPlan]]:
        """Everything that stands against the start, of all queries and sinks, in one error. Writes nothing."""
        plans: list[tuple[TwoPhaseSink, SinkPlan]] = []
        violations: list[TidegateError] = []
        for run in handle.runs:
            plan = run.plan
            violations.extend(check_plan(plan.rows, plan.mode, str(plan.query)))
            violations.extend(check_state(plan.folder / "spark", str(plan.query)))
            for sink in plan.sinks.values():
                try:
                    sink_plan = self._sink_plan(plan, sink, run.runner.read_journal)
                except TidegateError as error:
                    violations.append(error)
                else:
                    plans.append((sink, sink_plan))
                    violations.extend(sink.check(sink_plan))
        raise_all(violations, f"job {self.name}")
        return plans

    def _sink_plan(self, plan: QueryPlan, sink: TwoPhaseSink, read_journal: Any) -> SinkPlan:
        identity: SinkIdentity = plan.query.sink(sink.uid)
        if isinstance(sink, FunctionSink):
            sink.attach(self.spark, plan.folder / "ledger")
        return SinkPlan(
            identity=identity,
            schema=sink_schema(plan.rows, sink, f"{plan.query}, sink {sink.uid}"),
            mode=plan.mode,
            local_master=is_local(self.spark),
            read_journal=read_journal,
            interval_seconds=self.settings.checkpointing_interval,
        )

    def _sources(self) -> SourceRegistry:
        if self._registry is None:
            self._registry = SourceRegistry(self.spark)
        return self._registry


def _checked_uid(uid: str, where: str, taken: set[str]) -> str:
    if not isinstance(uid, str) or _UID.fullmatch(uid) is None:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _program_error(
            Code.UID_INVALID, "1 to 64 letters, digits, `-` or `_`, the first a letter or digit", repr(uid), where
        )
    if uid in taken:
        raise _program_error(Code.UID_DUPLICATE, "a uid of its own", repr(uid), where)
    return uid


def _program_error(code: Code, expected: str, found: str, where: str) -> TidegateError:
    return TidegateError(code, expected=expected, found=found, where=where, next_step="change the program")
