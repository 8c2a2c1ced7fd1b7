"""The retained checkpoints of a job with channels: each is one cut across its queries.

The snapshots of such a checkpoint are as old as its slowest reader, so Spark would remove their files. They are held in
`checkpoints/held`: by links on a disk, by copies elsewhere. A file that an earlier checkpoint holds is held once, so a
checkpoint costs what its queries have written since the one before. The manifest comes last. It names the held files,
and these go when no manifest names them any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone

from tidegate.checkpoints.job_layout import CHECKPOINTS, HELD_FILES, held_folder
from tidegate.checkpoints.manifests import Manifests
from tidegate.core.records import CheckpointRecord, DoneEpoch, JobRecord
from tidegate.savepoints.cut import demand_cut
from tidegate.savepoints.hold import RunningQuery, hold_files, newest_done
from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


class GraphCheckpoints:
    """The retained checkpoints of one job, in its driver. One thread calls at a time."""

    def __init__(self, job_folder: Folder, job: JobRecord, queries: Sequence[RunningQuery], retained: int) -> None:
        """`retained`: how many stay."""
        self._folder = job_folder
        self._job = job
        self._queries = queries
        self._manifests = Manifests(job_folder, retained)
        self._held: dict[Folder, _Held] = {}

    def begin(self) -> None:
        """Remove the held files that no manifest names: killed processes have left them."""
        root = self._folder / CHECKPOINTS / HELD_FILES
        storage = open_storage(root)
        for query in storage.folders(""):
            for generation in storage.folders(query):
                self._held_in(root / query / generation)
        self._remove_unneeded()

    def take_last(self, *, drained: bool = False) -> bool:
        """`take` the newest done epochs. All queries have ended; `drained`: by a drain."""
        snapshots = {each.query.uid: newest_done(each) for each in self._queries}
        demand_cut(self._folder, self._job, [done for done in snapshots.values() if done is not None])
        return self.take(lambda running: snapshots[running.query.uid], drained=drained)

    def take(
        self,
        snapshot_of: Callable[[RunningQuery], DoneEpoch | None],
        go_on: Callable[[], None] = lambda: None,
        *,
        drained: bool = False,
    ) -> bool:
        """Hold the snapshot of every query, in the order of the program, and write the manifest. False if a query has
        no snapshot, or if Spark has removed files of it meanwhile: then nothing counts.

        Raises SAVEPOINT_REFUSED if the snapshots are no cut, storage errors, and what `go_on` raises.
        """
        snapshots: list[DoneEpoch] = []
        held: dict[str, tuple[str, ...]] = {}
        for running in self._queries:
            done = snapshot_of(running)
            names = set[str]() if done is None else self._hold(running, done, go_on)
            if done is None or not names:
                return False
            snapshots.append(done)
            held[done.query] = tuple(sorted(names))
        demand_cut(self._folder, self._job, snapshots)
        for done in snapshots:
            self._held_in(held_folder(self._folder, done.query, done.generation)).files.sync()
        self._write(snapshots, held, drained=drained)
        return True

    def _hold(self, running: RunningQuery, done: DoneEpoch, go_on: Callable[[], None]) -> set[str]:
        folder = held_folder(self._folder, done.query, done.generation)
        held = self._held_in(folder)
        held.is_known = False  # until the call has ended: it may raise after some files
        found = hold_files(running, done, folder, go_on, held.names)
        if found:
            held.names |= found
            held.is_known = True
        return found

    def _held_in(self, folder: Folder) -> _Held:
        if folder not in self._held:
            self._held[folder] = _Held(open_checkpoint_files(folder))
        return self._held[folder].looked_at()

    def _write(self, snapshots: Sequence[DoneEpoch], held: Mapping[str, tuple[str, ...]], *, drained: bool) -> None:
        record = CheckpointRecord(
            number=self._manifests.next_number(),
            job=self._job.name,
            job_id=self._job.job_id,
            at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            queries=tuple(snapshots),
            drained=drained,
            held=dict(held),
        )
        self._manifests.put(record)
        self._manifests.remove_older()
        self._remove_unneeded()

    def _remove_unneeded(self) -> None:
        needed: dict[Folder, set[str]] = {}
        for record in self._manifests.all():
            for done in record.queries:
                folder = held_folder(self._folder, done.query, done.generation)
                needed.setdefault(folder, set()).update(record.held.get(done.query, ()))
        for folder in list(self._held):
            if folder in needed:
                held = self._held_in(folder)
                gone = held.names - needed[folder]
                open_storage(folder).delete_all(sorted(gone))
                held.names -= gone
            else:
                open_storage(folder.parent).clear(folder.name)
                del self._held[folder]


class _Held:
    """The files that are held of one generation of a query. `is_known`: False if they are to be listed again."""

    def __init__(self, files: CheckpointFiles) -> None:
        self.files = files
        self.names: set[str] = set()
        self.is_known = False

    def looked_at(self) -> _Held:
        if not self.is_known:
            self.names = {each.name for each in self.files.list()}
            self.is_known = True
        return self
