"""The retained checkpoints of a job with channels: each is one cut across its queries.

The snapshots of such a checkpoint are as old as its slowest reader, so Spark would remove their files. Each checkpoint
holds its files in a folder of its own, `checkpoints/held/<id>`: by links on a disk, by copies elsewhere. The manifest
comes last, and names the folder. The folder goes with its manifest, or at once if there is none. What a killed driver
has left goes at the next start.

A driver that was paused may resume beside its successor. It removes its own folders, and no other one: the successor
has the same older manifests, but folders of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TypeAlias

import msgspec

from tidegate.checkpoints.job_layout import CHECKPOINTS, HELD_FILES, held_folder
from tidegate.checkpoints.manifests import Manifests
from tidegate.core.barriers import Alignment
from tidegate.core.records import CheckpointRecord, DoneEpoch, JobRecord, TakenPart
from tidegate.savepoints.cut import Cut, demand_cut
from tidegate.savepoints.hold import RunningQuery, hold_files, newest_done
from tidegate.savepoints.running_job import Snapshots
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

_Held: TypeAlias = tuple[DoneEpoch, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Compared:
    """What was compared and measured. `parts`: by query; nothing if all had ended."""

    cut: Cut
    alignment: Alignment
    parts: Mapping[str, TakenPart] = field(default_factory=dict[str, TakenPart])


class GraphCheckpoints:
    """The retained checkpoints of one job, in its driver. One thread calls at a time."""

    def __init__(self, job_folder: Folder, job: JobRecord, queries: Sequence[RunningQuery], retained: int) -> None:
        """`retained`: how many stay."""
        self._folder = job_folder
        self._all_held_in = open_storage(job_folder / CHECKPOINTS / HELD_FILES)
        self._job = job
        self._queries = {each.query.uid: each for each in queries}
        self._manifests = Manifests(job_folder, retained)
        self._held: dict[int, str] = {}
        """The folder of each manifest."""

    def sweep(self) -> Mapping[str, int]:
        """Remove the folders that no manifest names: killed drivers have left them. Before the first `take`.

        Returns the epoch of each query in the newest checkpoint; nothing if it is of an older generation, or if there
        is none.
        """
        records = self._manifests.all()
        self._held = {record.number: record.held_in for record in records}
        for name in self._all_held_in.folders(""):
            if name not in self._held.values():
                self._all_held_in.clear(name)
        found = {done.query: done for record in records[-1:] if record.held_in for done in record.queries}
        is_of_this_one = all(
            uid in found and found[uid].generation == each.query.generation for uid, each in self._queries.items()
        )
        return {uid: done.epoch for uid, done in found.items()} if is_of_this_one else {}

    def take_last(self, alignment: Alignment, go_on: Callable[[], None], *, drained: bool = False) -> bool:
        """`take` the newest done epochs. All queries have ended; `drained`: by a drain."""
        snapshots = [done for each in self._queries.values() if (done := newest_done(each)) is not None]
        cut = demand_cut(self._folder, self._job, snapshots, alignment)  # before any file is copied
        return self._is_taken(snapshots, go_on, lambda _: _Compared(cut, alignment), drained=drained)

    def take(self, snapshots: Snapshots, go_on: Callable[[], None]) -> bool:
        """Hold each snapshot, and write the manifest. False if a query has no snapshot, if Spark has removed files of
        one meanwhile, or if another driver has put a manifest of this number: then nothing counts, and nothing stays.
        `go_on` is called before each file, and before the manifest is written.

        Raises SAVEPOINT_REFUSED if the snapshots are no cut, storage errors, and what `go_on` raises.
        """

        def compared(found: Sequence[DoneEpoch]) -> _Compared:
            cut = demand_cut(self._folder, self._job, found, snapshots.alignment)
            return _Compared(cut, snapshots.alignment, snapshots.taken)

        return self._is_taken(snapshots, go_on, compared)

    def _is_taken(
        self,
        snapshots: Iterable[DoneEpoch],
        go_on: Callable[[], None],
        compared: Callable[[Sequence[DoneEpoch]], _Compared],
        *,
        drained: bool = False,
    ) -> bool:
        """`compared`: called when all files are held."""
        name = secrets.token_hex(8)
        is_put = False
        try:
            found = self._held_below(name, snapshots, go_on)
            if found:
                taken = compared([done for done, _ in found])
                for done, _ in found:
                    open_checkpoint_files(held_folder(self._folder, name, done.query)).sync()
                go_on()
                is_put = self._is_put(name, found, taken, drained=drained)
        finally:
            if not is_put:
                self._all_held_in.clear(name)
        return is_put

    def _held_below(self, name: str, snapshots: Iterable[DoneEpoch], go_on: Callable[[], None]) -> Sequence[_Held]:
        """Each snapshot with the names of its held files, in the order of the program; empty if one is missing."""
        found: dict[str, _Held] = {}
        for done in snapshots:
            held = held_folder(self._folder, name, done.query)
            names = hold_files(self._queries[done.query], done, held, go_on)
            if not names:
                return []
            found[done.query] = done, tuple(sorted(names))
        return [] if len(found) < len(self._queries) else [found[uid] for uid in self._queries]

    def _is_put(self, name: str, found: Sequence[_Held], taken: _Compared, *, drained: bool) -> bool:
        record = CheckpointRecord(
            number=self._manifests.next_number(),
            job=self._job.name,
            job_id=self._job.job_id,
            at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            queries=tuple(done for done, _ in found),
            drained=drained,
            held_in=name,
            held={done.query: names for done, names in found},
            in_flight=dict(taken.cut.ends),
            alignment=taken.alignment.value,
            taken={
                query: msgspec.structs.replace(part, rows_in_flight=taken.cut.rows.get(query, 0))
                for query, part in taken.parts.items()
            },
        )
        if not self._manifests.put(record):
            return False
        self._held[record.number] = name
        gone = [self._held.pop(number, "") for number in self._manifests.remove_older()]
        for folder in filter(None, gone):
            self._all_held_in.clear(folder)
        return True
