"""Tidegate's own sources during one start of a job, and the requests of its queries to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cache, partial

from pyspark.sql import DataFrame

from tidegate.checkpoints.job_layout import generation_number
from tidegate.checkpoints.tempo import Tempo
from tidegate.core.ledger import START, position_of
from tidegate.savepoints.ingest_join import JoinedLog, demand_no_line_given_up
from tidegate.sources.used_columns import UsedColumns
from tidegate.spark.companions import Companion
from tidegate.spark.declared import DeclaredQuery
from tidegate.spark.job_plan import DeclaredJob
from tidegate.spark.opens import Opens
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.restoring import JobRestore
from tidegate.spark.sources.opened import end_input, grounds_of, keep_input, open_sources, verify_read
from tidegate.spark.sources.source import Monitor, SourceUse
from tidegate.spark.state.backend import newest_offsets
from tidegate.spark.supervised import start_moves
from tidegate.spark.until import Until
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


class JobSources:
    """The sources during one start of a job, closed with the start's stack, and their readings by its queries."""

    def __init__(
        self,
        job: DeclaredJob,
        stack: ExitStack,
        *,
        until: Until,
        opens: Opens = Opens.START,
        restore: JobRestore | None = None,
    ) -> None:
        self._job = job
        self._begins: dict[str, str] = {}
        """The begin of a source, by uid: the same for all queries of one start."""
        readers = {
            uid: frozenset(self._reader(each, uid) for each in job.queries if uid in each.sources)
            for uid, source in job.positioned.items()
            if restore is not None or not (opens is Opens.CHECK and source.writes)
        }
        grounds = grounds_of(job.name, job.session, job.folder, readers, job.settings, until, restore)
        self._opened = open_sources(job.positioned, grounds, stack, restore)

    def begin_again(self) -> None:
        """Another plan of the same start determines the begin of its sources again."""
        self._begins = {}

    def companions(self) -> Iterator[Companion]:
        """The companions of the job."""
        found = (source.companion() for source in self._opened.values())
        return (each for each in found if each is not None)

    def joined(self) -> tuple[JoinedLog, ...]:
        """The ingest logs of a restored job. Raises INGEST_LOST if the restore would lose lines."""
        logs = tuple(log for source in self._opened.values() if (log := source.joined()) is not None)
        demand_no_line_given_up(logs, f"job {self._job.name}")
        return logs

    def end_input(self) -> None:
        """Every query has ended: the sources accept no more input."""
        end_input(self._opened.values())

    def keep_input(self) -> AbstractContextManager[None]:
        """A savepoint collects its files: no source removes a row that it needs."""
        return keep_input(self._opened.values())

    def compare(self, plan: QueryPlan, uid: str, position: str) -> None:
        """Raise if this source is not the one in which the query has reached this position."""
        if uid in self._opened:
            self._opened[uid].compare(f"{plan.query}, source {uid}", position)

    def compare_with_logs(self, plans: Sequence[QueryPlan]) -> None:
        """Each source with the positions that the queries have reached."""
        for plan in plans:
            reached = newest_offsets(plan.folder / "spark")
            for uid, position in zip(plan.query.sources, () if reached is None else reached.positions, strict=False):
                if position is not None:
                    self.compare(plan, uid, position)

    def monitors(self, declared: DeclaredQuery) -> Mapping[str, Monitor]:
        own = {uid: self._opened[uid] for uid in declared.sources if uid in self._opened}
        found = {uid: source.monitor(self._reader(declared, uid)) for uid, source in own.items()}
        return {uid: monitor for uid, monitor in found.items() if monitor is not None}

    def verify(self, declared: DeclaredQuery) -> None:
        """Raise if the tasks of an epoch have not read exactly its input."""
        verify_read(self._opened, {uid: self._reader(declared, uid) for uid in declared.sources})

    def positions(self, declared: DeclaredQuery, folder: Folder) -> Mapping[str, str]:
        """The position where each source of a query begins, for a query that has no *start* record yet."""
        own = [uid for uid in declared.sources if uid in self._opened]
        if not own or open_storage(folder).read(START) is not None:
            return {}
        job = self._job
        for uid in own:
            if uid not in self._begins:
                where = f"job {job.name}, source {uid}"
                mode, generation = job.settings.checkpointing_mode, generation_number(folder)
                self._begins[uid] = self._opened[uid].begin(where, mode, generation)
                start_moves(f"source {uid}, looked at")
        return {uid: self._begins[uid] for uid in own}

    def begun_at(
        self,
        declared: DeclaredQuery,
        log: Folder,
        positions: Mapping[str, str],
        newest_epoch_seconds: Callable[[], float | None],
    ) -> DataFrame:
        """The rows of a query. Its positioned sources begin at the positions in *start*, and adapt their epochs to how
        long the newest one has taken.
        """
        job = self._job
        own = {uid: self._opened[uid] for uid in declared.sources if uid in self._opened}
        tempo = Tempo(job.settings.backlog_interval, log, job.settings.checkpointing_timeout, newest_epoch_seconds)
        columns = cache(lambda: job.registry.columns_read(declared.rows))  # not before a source asks

        def columns_of(uid: str) -> UsedColumns:
            return columns()[uid]

        streams: dict[str, DataFrame] = {}
        for uid, source in own.items():
            use = SourceUse(
                where=f"job {job.name}, source {uid}",
                position=position_of(positions[uid]),
                tempo=tempo,
                reader=self._reader(declared, uid),
                columns=partial(columns_of, uid),
            )
            streams[uid] = source.bound(job.session, use)
        start_moves(f"query {declared.uid}, about to start")
        return job.registry.put_in_place(declared.rows, streams)

    def _reader(self, declared: DeclaredQuery, source: str) -> str:
        return f"{self._job.name}.{declared.uid}.{source}"
