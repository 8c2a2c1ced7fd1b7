"""The proof of state files whose names do not say which run wrote them (hashmap), where another driver may be alive.

Spark names such a file by its version alone, and replaces an existing one. So a driver that was paused for longer than
its lease can write its own state over that of its successor. Nothing prevents this on HDFS, but it is detected:
*prepared/N* names each state file of epoch N, with size and SHA-256, and every start, restore and savepoint compares
the files that it needs.

* **Which files.** Epoch N makes version N+1 of each store: a delta. Spark loads a version from the newest snapshot at
  or below it, and from the deltas behind that. Spark's maintenance writes a snapshot at any time behind its epoch.
* **Which records.** The records of decided epochs are kept as long as Spark's log; a delta can be needed for longer.
  So the first epoch of a run, and every `ALL_NAMED_EVERY` epochs one, names all files that are there. The other epochs
  name their deltas, and list nothing. The newest records back to one that names all are the proof (`named_state`).
* **Whose snapshot.** A late writer holds no version above the first one of the newest run: an older run began no later
  epoch. So a run names only snapshots above its first version, which it has made itself. It removes the others, and so
  does every start: the deltas are there instead. Spark keeps the deltas before a snapshot for ten epochs, so a snapshot
  is named or removed before Spark needs it.
* **What is not seen.** In the first epoch of a run a file can be written over between Spark's write and the look at it,
  some milliseconds later. An executor that loads state while a late writer's snapshot is there reads that.

A generation that a restore has opened has no such record yet. The restore has compared the files with the savepoint;
a start that continues a sealed generation, with the records of that one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from tidegate.checkpoints.spark_layout import STATE, entry_numbers
from tidegate.core.ledger import DECIDED, START, entry, prepared_name
from tidegate.core.records import Decided, Prepared, Sealed, Start, StateFile, decode, is_of_kind
from tidegate.disk.side_by_side import side_by_side
from tidegate.storages.checkpoint_files import CheckpointFiles, measured_at
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

ALL_NAMED_EVERY: Final = 5
"""Half of the epochs whose records are kept at least, so that one of them names all files."""


class Version(NamedTuple):
    """The parts of a state file's name: its store, and what it is of this store."""

    store: str
    number: int
    is_snapshot: bool


class StateFlaw(NamedTuple):
    """How a state file differs from what was written of it, in the words of an error."""

    where: str
    expected: str
    found: str


def version_of(name: str) -> Version | None:
    """The parts of a name; None for a file that is no state of one version."""
    store, _, file = name.rpartition("/")
    found = _FILE.fullmatch(file)
    return Version(store, int(found[1]), found[2] == "snapshot") if found and store.startswith(f"{STATE}/") else None


def needed_at(version: int, names: Iterable[str]) -> list[str]:
    """The files from which Spark loads this version of every store in `names`. A file may be missing in `names`."""
    snapshots: dict[str, int] = {}
    for each in filter(None, map(version_of, names)):
        newest = snapshots.setdefault(each.store, 0)
        if each.is_snapshot and newest < each.number <= version:
            snapshots[each.store] = each.number
    return [name for store, base in sorted(snapshots.items()) for name in _from(store, base, version)]


def _from(store: str, base: int, version: int) -> Iterator[str]:
    if base > 0:
        yield f"{store}/{base}.snapshot"
    yield from (f"{store}/{number}.delta" for number in range(base + 1, version + 1))


def named_state(ledger: Storage) -> dict[str, StateFile]:
    """All state files of one generation that the records of its decided epochs name; empty if they name none."""
    named: dict[str, StateFile] = {}
    for epoch in reversed(entry_numbers(ledger.list(DECIDED))):
        name = entry(DECIDED, epoch)
        data = ledger.read(name)
        if data is None or is_of_kind(Sealed, data):
            continue
        prepared = record_in(ledger, Prepared, prepared_name(epoch, decode(Decided, data, ledger.where(name)).run))
        if prepared is None:  # an epoch that a restore has brought
            break
        files = prepared.state_files
        named = {**{file.name: file for file in files}, **named}
        if any(found.number <= epoch for file in files if (found := version_of(file.name)) is not None):
            break
    return named


def flaws_at(generation: Folder, epoch: int) -> list[StateFlaw]:
    """How the state files of this epoch differ from what was written of them. `generation`: the folder of a generation
    of a query. Reads the state of the epoch completely.
    """
    named, files = named_state(open_storage(generation)), open_checkpoint_files(generation / "spark")
    return flaws_in(files, files, named, epoch)


def flaws_in(
    copy: CheckpointFiles, original: CheckpointFiles, named: Mapping[str, StateFile], epoch: int
) -> list[StateFlaw]:
    """The same of a copy of the files. The flaws have the places of the original."""

    def flaw(name: str) -> StateFlaw | None:
        return flaw_of(original.where(name), named.get(name), measure(copy, name))

    return [found for found in side_by_side(flaw, needed_at(epoch + 1, named)) if found is not None]


def flaw_of(where: str, wanted: StateFile | None, found: StateFile | None) -> StateFlaw | None:
    """How a file differs from the one that was named; None if it is that one."""
    if wanted is not None and wanted == found:
        return None
    expected = "a file that the record of an epoch names" if wanted is None else f"{_said(wanted)}, as it was written"
    return StateFlaw(where, expected, "none" if found is None else _said(found))


def measure(files: CheckpointFiles, name: str) -> StateFile | None:
    """A state file as it is now; None if it is absent."""
    found = measured_at(files, name)
    return None if found is None else StateFile(name=name, size_bytes=found.size_bytes, sha256=found.sha256)


class StateFiles:
    """The state files of one run, which names them epoch by epoch. `known`: those of the epochs before it."""

    def __init__(self, files: CheckpointFiles, known: Mapping[str, StateFile]) -> None:
        self._files = files
        self._known = dict(known)
        self._first_version: int | None = None

    def of_epoch(self, epoch: int) -> tuple[StateFile, ...]:
        """The files that the record of this epoch names: its deltas, or all that are there. Its tasks have ended.

        Raises storage errors.
        """
        is_first = self._first_version is None
        if self._first_version is None:
            self._first_version = epoch + 1
        if is_first or epoch % ALL_NAMED_EVERY == 0:
            return self._all(epoch + 1, self._first_version)
        stores = sorted({found.store for name in self._known if (found := version_of(name)) is not None})
        return self._named([f"{store}/{epoch + 1}.delta" for store in stores])

    def _all(self, version: int, first: int) -> tuple[StateFile, ...]:
        present = {name: found for name, found in _present(self._files) if found.number <= version}
        _remove_snapshots(self._files, {name for name, found in present.items() if found.number <= first}, self._known)
        new = [name for name, found in present.items() if found.number > first or not found.is_snapshot]
        self._named([name for name in new if name not in self._known and self._may_name(present[name], version)])
        self._known = {name: file for name, file in self._known.items() if name in present}
        return tuple(file for _, file in sorted(self._known.items()))

    @staticmethod
    def _may_name(found: Version, version: int) -> bool:
        """An older delta that no record names is not this run's."""
        return found.is_snapshot or found.number == version

    def _named(self, names: list[str]) -> tuple[StateFile, ...]:
        measured = side_by_side(lambda name: measure(self._files, name), names)
        files = tuple(file for file in measured if file is not None)
        self._known.update((file.name, file) for file in files)
        return files


def open_state(generation: Folder, epoch: int) -> tuple[StateFiles, list[StateFlaw]]:
    """The state files of a generation whose newest decided epoch is `epoch`, for the next run, and what is wrong with
    those from which that run loads its state. Removes snapshots that no record names. Only with the job's lease held,
    behind recovery.
    """
    ledger, files = open_storage(generation), open_checkpoint_files(generation / "spark")
    named = named_state(ledger)
    known = named or _brought(ledger, files)
    _remove_snapshots(files, dict(_present(files)), known)
    return StateFiles(files, known), flaws_in(files, files, named, epoch)


def _brought(ledger: Storage, files: CheckpointFiles) -> dict[str, StateFile]:
    """What a restore has brought: the files of the version with which the generation begins. Nothing else of it is
    decided yet.
    """
    start = record_in(ledger, Start, START)
    version = 0 if start is None else start.first_epoch
    present = {name for name, found in _present(files) if found.number <= version}
    measured = side_by_side(lambda name: measure(files, name), needed_at(version, present))
    return {file.name: file for file in measured if file is not None}


def _present(files: CheckpointFiles) -> Iterator[tuple[str, Version]]:
    for each in files.list(STATE):
        found = version_of(each.name)
        if found is not None:
            yield each.name, found


def _remove_snapshots(files: CheckpointFiles, names: Iterable[str], named: Mapping[str, StateFile]) -> None:
    """Remove the snapshots among `names` that no record names."""
    for name in sorted(set(names) - set(named)):
        found = version_of(name)
        if found is not None and found.is_snapshot:
            files.delete(name)


def _said(file: StateFile) -> str:
    return f"{file.size_bytes} bytes of SHA-256 {file.sha256}"


_FILE = re.compile(r"(\d+)\.(delta|snapshot)")
