"""Rewrites the state of a query in another backend or another number of partitions. The JVM does the work.

From rocksdb to rocksdb Spark's own StateRewriter does it, in tasks: it supports every kind of state in rocksdb, and
nothing else. For hashmap, and from the tables of a canonical savepoint, the stores are opened here, in the driver: one
operator and store after the other, its partitions in parallel. (Spark's tasks would search jars for the class that is
compiled here.)

A thread reads one partition of a store, or one piece of a Parquet file. It puts the unchanged bytes of each row into
the partition that Spark's shuffle assigns to its key. A store takes rows of one thread at a time, so rows are put in
batches. The first error interrupts the other threads, which check for that before each batch. It is raised after they
have ended, so nothing is written any more by then. Memory holds these partitions of a hashmap, some megabytes of each
Parquet file, and the written part of a hashmap.

All write a snapshot of exactly the version at the end of the epoch. The class is `java/TidegateStateRewrite.java`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.checkpoints.spark_layout import STATE
from tidegate.checkpoints.sync import sync_whole
from tidegate.core.effects import Happening
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavedQuery, StatefulOperator
from tidegate.core.spark_log import parse_offsets
from tidegate.core.start_happenings import RestoreMoved
from tidegate.savepoints.log_change import state_ids_of, with_settings, with_state_ids
from tidegate.savepoints.operator_metadata import prefix_columns
from tidegate.savepoints.rewritten import (
    as_snapshots,
    begin,
    commits_of,
    end,
    offsets_of,
    replace_commits,
    replace_offsets,
    state_partitions,
)
from tidegate.savepoints.state_change import StateChange, StateForm
from tidegate.savepoints.state_tables import SavedTables, StateTable
from tidegate.settings.kinds import Backend
from tidegate.spark.compiled import class_of
from tidegate.spark.full_disk import full_disk
from tidegate.spark.query_conf import NOT_COUNTED, PARTITIONS_KEY, PROVIDER_KEY, STORES
from tidegate.spark.refusals import not_restored
from tidegate.spark.session import query_settings
from tidegate.spark.state.tables import read_canonical
from tidegate.spark.task_files import TaskFiles

_ADAPTIVE = "spark.sql.adaptive.enabled"
"""A task may read several partitions, and writes the partition of its own number."""

_JOIN_VERSION = "spark.sql.streaming.join.stateFormatVersion"

StateIds = Mapping[int, Sequence[Sequence[str]]]
"""By operator, by partition, one id for each store."""


def rewrite_state(
    session: SparkSession,
    conf: Mapping[str, str],
    checkpoint: Path,
    final: Path | str,
    saved: SavedQuery,
    change: StateChange,
    tell: Callable[[Happening], None],
    files: TaskFiles,
    tables: SavedTables | None = None,
) -> None:
    """Replace a restored checkpoint by one with the state in its new form, durably. `conf`: the settings of the query.
    `final`: the checkpoint's final place. `tell` is called for each step. `files`: for tasks that write state.
    `tables`: the canonical savepoint with the state; without it the state is in the checkpoint itself.

    Raises RESTORE_STATE, and storage errors.
    """
    before = begin(checkpoint, change.after.partitions)
    tell(RestoreMoved(f"{checkpoint}, without state"))
    store = STORES[change.after.backend]
    in_force = {PROVIDER_KEY: store.provider, PARTITIONS_KEY: str(change.after.partitions)}
    # Restored settings, not saved ones: the program may have other sources.
    offsets = with_settings(offsets_of(checkpoint, saved.done.epoch), in_force)
    replace_offsets(checkpoint, saved.done.epoch, offsets)
    entry = parse_offsets(offsets)
    settings = {} if entry is None else entry.conf
    with query_settings(session, {**conf, **settings, _ADAPTIVE: "false", **NOT_COUNTED}):
        ids = _Rewrite(session, before, checkpoint, saved, change, tell, tables).run(files) if saved.operators else {}
    replace_commits(
        checkpoint, saved.done.epoch, with_state_ids(saved.done.commits, ids if store.names_files else None)
    )
    end(checkpoint, before, final)
    tell(RestoreMoved(f"{checkpoint}, state rewritten"))


def begin_operators(
    session: SparkSession,
    conf: Mapping[str, str],
    checkpoint: Path,
    saved: SavedQuery,
    new: tuple[StatefulOperator, ...],
    form: StateForm,
    tell: Callable[[Happening], None],
) -> None:
    """Give new operators, already described in a checkpoint, empty stores beside the state of the others. The stores
    have the version at the end of the saved epoch, so that Spark finds all of them. Durable.

    Raises RESTORE_STATE, and storage errors.
    """
    begun, store = msgspec.structs.replace(saved, operators=new), STORES[form.backend]
    entry = parse_offsets(offsets_of(checkpoint, saved.done.epoch))
    settings = {} if entry is None else entry.conf
    with query_settings(session, {**conf, **settings, **NOT_COUNTED}):
        ids = _Rewrite(session, checkpoint, checkpoint, begun, StateChange(form, form), tell, None).begun()
    commits = commits_of(checkpoint, saved.done.epoch)
    if store.names_files:
        replace_commits(checkpoint, saved.done.epoch, with_state_ids(commits, {**state_ids_of(commits), **ids}))
    sync_whole(checkpoint)


@dataclass(frozen=True, slots=True)
class _Rewrite:
    """One checkpoint's state, all its operators. Only while the settings of its query are in force."""

    session: SparkSession
    before: Path
    after: Path
    saved: SavedQuery
    change: StateChange
    tell: Callable[[Happening], None]
    tables: SavedTables | None

    def run(self, files: TaskFiles) -> StateIds:
        """All of the state, in its new form."""
        if not self._is_divided:
            return self._here(self._all_copied)
        with files.read(self.before) as before, files.written(self.after) as after:
            return self._in_jvm(before, after, self._divided)

    def begun(self) -> StateIds:
        """Empty stores."""
        return self._here(lambda maker: {each.number: self._copied(maker, each, ()) for each in self.saved.operators})

    def _here(self, work: Callable[[Any], StateIds]) -> StateIds:
        """On the disk of the driver."""
        return self._in_jvm(f"file:{self.before}", f"file:{self.after}", work)

    def _in_jvm(self, before: str, after: str, work: Callable[[Any], StateIds]) -> StateIds:
        jvm: Any = self.session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
        classic: Any = self.session._jsparkSession  # pyright: ignore[reportPrivateUsage]
        maker = class_of(jvm, classic.getClass().getClassLoader(), "TidegateStateRewrite").newInstance()
        try:
            maker.open(classic, before, after, self.saved.done.epoch, self.change.after.partitions)
            return work(maker)
        except (PySparkException, Py4JError) as error:
            full = full_disk(error)
            if full is not None:
                raise full from None
            found = str(getattr(error, "java_exception", error))[:500]
            raise self._failed("state that Spark can write in its new form", found) from None

    @property
    def _is_divided(self) -> bool:
        backends = {self.change.before.backend, self.change.after.backend}
        return self.tables is None and backends == {Backend.ROCKSDB}

    def _divided(self, rewrite: Any) -> StateIds:
        """By Spark's own rewriter."""
        found: dict[int, list[list[str]]] = defaultdict(list)
        for line in rewrite.divide().splitlines():
            operator, _, *ids = line.split(" ")
            found[int(operator)].append(ids)
        self.tell(RestoreMoved(f"{self.after}, state divided"))
        return found

    def _all_copied(self, rewrite: Any) -> StateIds:
        found: dict[int, list[list[str]]] = {}
        for each in self.saved.operators:
            sources = () if self.tables is not None else state_partitions(self.before, each.number)
            found[each.number] = self._copied(rewrite, each, sources)
        return found

    def _copied(self, rewrite: Any, operator: StatefulOperator, sources: Sequence[int]) -> list[list[str]]:
        """Store by store, from these partitions. Returns the ids by partition, one for each store."""
        metadata = self.before / STATE / str(operator.number) / "_metadata" / "metadata"
        prefixes = prefix_columns(metadata.read_bytes(), str(metadata))
        loads_empty = self.change.after.backend is Backend.ROCKSDB
        by_store: list[list[str]] = []
        for position, store in enumerate(operator.stores):
            table = StateTable(self.saved.done.query, operator.number, operator.name, store)
            line: str = rewrite.copy(
                *self._form(self.change.before.backend),
                *self._form(self.change.after.backend),
                operator.number,
                operator.name,
                store,
                prefixes.get(store, 0),
                self._join_version(),
                " ".join(map(str, sources)),
                " ".join(self._ids(operator, position, sources)),
                None if self.tables is None else self._rows(Path(self.tables.folder_of(table))),
                loads_empty,
            )
            by_store.append(line.split(" ")[1:])
            self.tell(RestoreMoved(f"{self.after}, {operator.name}, {line.split(' ')[0]} rows of {store} rewritten"))
        if not loads_empty:
            as_snapshots(self.after, operator.number, self.saved.done.epoch + 1)
        return [list(ids) for ids in zip(*by_store, strict=True)]

    def _rows(self, folder: Path) -> Any:
        """The number of key-value pairs in the files of a table."""
        rows: Any = read_canonical(self.session, folder).select("key", "value")
        return rows._jdf

    def _ids(self, operator: StatefulOperator, position: int, sources: Sequence[int]) -> Sequence[str]:
        """The ids of one store's files, by partition; none if the form has no ids."""
        if not sources or not STORES[self.change.before.backend].names_files:
            return ()
        ids = state_ids_of(self.saved.done.commits)[operator.number]
        return [ids[partition][position] for partition in sources]

    def _form(self, backend: Backend) -> tuple[str, str]:
        return STORES[backend].provider, STORES[backend].checkpoint_format

    def _join_version(self) -> int:
        entry = parse_offsets(self.saved.done.offsets)
        return int((entry.conf if entry else {}).get(_JOIN_VERSION, "2"))

    def _failed(self, expected: str, found: str) -> TidegateError:
        instead = "restore it with the backend and the partitions that it has"
        return not_restored(expected, found, str(self.after), instead)
