"""Executes the protocol's effects: files, sinks, the epoch's tasks, waiting."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from tidegate.core import effects as fx
from tidegate.core.ledger import Query
from tidegate.core.records import JournalRef
from tidegate.logs.subject import Subject, about_all_of
from tidegate.operate.written_records import WrittenRecords
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.rows import RowRefused, place_of
from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.storages.journals import open_journal
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

ResultT = TypeVar("ResultT")


def _pass_by(_point: str, _epoch: int | None) -> None:
    """The default for `reach`: do nothing."""


class RunPort(Protocol):
    """The parts that only a run of a query has: computing, waiting, receiving events."""

    def compute(self, effect: fx.Compute) -> fx.Computed: ...

    def await_finished(self, epoch: int) -> int: ...

    def await_commits(self, epoch: int) -> bool: ...

    def hesitate(self, effect: fx.Hesitate) -> None: ...

    def tell(self, happening: fx.Happening) -> None: ...


class Runner:
    """Executes the generators of the core for one query. Threads of the same run may share one runner.

    `reach` is called at every place of the protocol, with the epoch if it is known.
    """

    def __init__(
        self,
        *,
        query: Query,
        storage: Storage,
        sinks: Mapping[str, TwoPhaseSink],
        journal_folder: Folder,
        checkpoint: CheckpointFiles,
        port: RunPort,
        reach: Callable[[str, int | None], None] = _pass_by,
    ) -> None:
        self._query = query
        self._subject = Subject(job=query.job, query=query.uid)
        self._storage = storage
        self._written = WrittenRecords()
        self._sinks = sinks
        self._journal = open_journal(journal_folder)
        self._checkpoint = checkpoint
        self._port = port
        self._reach = reach
        self._perform: Mapping[type, Callable[[Any], object]] = {
            fx.Get: lambda e: storage.read(e.name),
            fx.Peek: lambda e: storage.peek(e.name),
            fx.Recall: lambda e: self._written.content(e.name) or storage.read(e.name),
            fx.List: lambda e: storage.list(e.folder),
            fx.PutIfAbsent: self._put_if_absent,
            fx.Replace: self._replace,
            fx.Delete: self._delete,
            fx.DeleteAll: self._delete_all,
            fx.SetAside: lambda e: storage.set_aside(e.name),
            fx.SyncCheckpoint: lambda _: checkpoint.sync(),
            fx.Introduce: lambda _: introduce(),
            fx.Compute: lambda e: port.compute(e),
            fx.AwaitFinished: lambda e: port.await_finished(e.epoch),
            fx.AwaitCommits: lambda e: port.await_commits(e.epoch),
            fx.Hesitate: lambda e: port.hesitate(e),
            fx.Tell: lambda e: port.tell(e.happening),
            fx.CommitSink: lambda e: sinks[e.sink].commit(e.committables),
            fx.CommitStraight: lambda e: sinks[e.sink].commit_straight(e.committables),
            fx.LookForEvidence: lambda e: sinks[e.sink].evidence(e.committable),
            fx.FenceTransaction: lambda e: sinks[e.sink].fence(e.committable),
            fx.RedoTransaction: self._redo,
            fx.ListOpen: lambda e: sinks[e.sink].pending(query.sink(e.sink)),
            fx.AbortOpen: lambda e: sinks[e.sink].abort(e.transactions),
            fx.ReadPosition: lambda e: sinks[e.sink].position(query.sink(e.sink)),
            fx.BeginRun: lambda e: sinks[e.sink].begin_run(query.sink(e.sink), e.run, e.run_token),
            fx.CleanThrough: self._clean,
            fx.DiscardFrom: self._discard,
        }

    def is_of_run(self, run: int) -> None:
        """Set the number of the run, once it is claimed."""
        self._subject = replace(self._subject, run=run)

    def told(self, epoch: int | None = None) -> AbstractContextManager[None]:
        """Log lines of this thread inside the block name the query and the epoch."""
        return about_all_of(self._subject, epoch=epoch)

    def run(self, steps: fx.Steps[ResultT]) -> ResultT:
        """Run `steps` to their end. An error in an effect ends them."""
        epoch: int | None = None
        result: object = None
        try:
            while True:
                effect = steps.send(result)
                epoch = epoch_of(effect, epoch)
                self._reach(f"{effect.point}.before", epoch)
                with self.told(epoch):
                    result = self._perform[type(effect)](effect)
                self._reach(f"{effect.point}.after", epoch)
        except StopIteration as stop:
            return stop.value
        finally:
            steps.close()

    def read_journal(self, reference: JournalRef) -> Iterable[pa.RecordBatch]:
        """The verified rows of one attempt."""
        return self._journal.read(reference)

    def _put_if_absent(self, effect: fx.PutIfAbsent) -> bool:
        created = self._storage.put_if_absent(effect.name, effect.data)
        if created:
            self._written.keep(effect.name, effect.data)
        return created

    def _replace(self, effect: fx.Replace) -> None:
        self._written.forget(effect.name)  # if it fails, either content may be there
        self._storage.replace(effect.name, effect.data)
        self._written.keep(effect.name, effect.data)

    def _delete(self, effect: fx.Delete) -> None:
        self._written.forget(effect.name)
        self._storage.delete(effect.name)

    def _delete_all(self, effect: fx.DeleteAll) -> None:
        for name in effect.names:
            self._written.forget(name)
        self._storage.delete_all(effect.names)

    def _redo(self, effect: fx.RedoTransaction) -> object:
        reference = effect.committable.journal
        rows = () if reference is None else self.read_journal(reference)
        try:
            return self._sinks[effect.sink].redo(effect.committable, rows)
        except RowRefused as refused:
            raise refused.placed(place_of(effect.committable.attempt)) from refused

    def _clean(self, effect: fx.CleanThrough) -> None:
        for uid, sink in self._sinks.items():
            sink.clean(self._query.sink(uid), effect.epoch)
        if effect.journals is None:
            self._journal.delete_through(effect.epoch)
        else:
            self._journal.delete_epoch(effect.epoch, effect.journals)

    def _discard(self, effect: fx.DiscardFrom) -> int:
        discarded = [sink.discard(self._query.sink(uid), effect.epoch) for uid, sink in self._sinks.items()]
        self._journal.delete_from(effect.epoch)
        return sum(discarded)


def introduce() -> tuple[str, str, int, str]:
    """(random token, host, process id, UTC time) of a run."""
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return secrets.token_hex(4), socket.gethostname(), os.getpid(), since


def epoch_of(effect: fx.Effect, known: int | None) -> int | None:
    """The epoch that an effect names; otherwise the epoch of the effect before it."""
    match effect:
        case fx.Compute() | fx.AwaitFinished() | fx.Hesitate():
            return effect.epoch
        case fx.AwaitCommits():
            return effect.epoch + 1
        case fx.CommitSink() | fx.CommitStraight():
            return effect.committables[0].attempt.epoch
        case fx.PutIfAbsent():
            number = effect.name.rpartition("/")[2].partition(".")[0]
            return int(number) if number.isdigit() and "/runs/" not in effect.name else known
        case _:
            return known
