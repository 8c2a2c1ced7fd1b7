"""The log of one query for a file source: the list of each epoch, and an index of all names in them.

    sources/<place>/<number>             the list of an epoch. It is written before Spark records the epoch's end, and
                                         replaced only while no position refers to it
    sources/<place>/index/<first>-<last> a run: the names of many consecutive lists

The names of all lists but the newest are in runs. Runs are merged as they grow, so that there are few. The name of a
run shows its lists, and each entry in it has the number of its list. So a source that resumes from an older position
can skip later entries. A file that a merge has replaced is kept for some epochs, in case a copy of the folder is being
made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.core.errors import Code, TidegateError
from tidegate.sources.files.lists import (
    Listed,
    ListPosition,
    decode,
    decode_of_spark,
    digest_of,
    encode,
    is_of_spark,
)
from tidegate.sources.files.runs import (
    INDEX,
    UNKNOWN,
    Key,
    ListedFile,
    ListRun,
    key_of,
    merged,
    open_run,
    parsed_name,
    run_of,
    stamp_of,
)
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

_NAMES_IN_MEMORY = 20_000
_GROWTH = 4
_COMPACT = ".compact"


@dataclass(slots=True)
class FileLog:
    """The log of one place in a checkpoint.

    Call `open` first. One thread may write lists while another runs `settle_down`.
    """

    folder: Folder
    name_of: Callable[[str], str]
    """The path below the root of a file that Spark's own source names by this URI."""
    where: str
    epochs_kept: int = 16
    lists_in_a_run: int = 64
    _storage: Storage = field(init=False)
    _runs: tuple[ListRun, ...] = ()
    _recent: dict[Key, list[tuple[int, int]]] = field(default_factory=dict[Key, list[tuple[int, int]]])
    _recent_keys: dict[int, list[Key]] = field(default_factory=dict[int, list[Key]])
    _superseded: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._storage = open_storage(self.folder)

    # --- opening -------------------------------------------------------------------------------------------

    def open(self, reached: int) -> None:
        """Load the names of all lists up to number `reached`, the newest in Spark's log (-1: none).

        Later lists belong to no epoch and are removed. Raises RECORD_CORRUPT if a list is missing and in no run.
        """
        self._storage.remove_leftovers("")
        self._storage.remove_leftovers(INDEX)
        self._drop_beyond(reached)
        self._take_over(reached)
        self._runs = tuple(self._cover(reached))
        covered = self._runs[-1].last if self._runs else -1
        for number in range(covered + 1, reached + 1):
            self._remember(number, self.files_of(number))
        kept = {run.name for run in self._runs}
        names = [f"{INDEX}/{name}" for name in self._run_names() if name not in kept]
        self._superseded = [(reached, name) for name in [*names, *self._list_names(covered)]]

    def _drop_beyond(self, reached: int) -> None:
        for name in self._run_names():
            first, last = parsed_name(name) or (0, 0)
            if last <= reached:
                continue
            if first <= reached:
                part = open_run(self.folder, name).up_to(reached)
                self._storage.replace(f"{INDEX}/{part.name}", part.to_bytes())
            self._storage.delete(f"{INDEX}/{name}")
        for name in self._storage.list(""):
            number = _number(name)
            if number is not None and number > reached and not name.endswith(_COMPACT):
                self._storage.delete(name)

    def _take_over(self, reached: int) -> None:
        """Convert the entries of Spark's own file source into a run, once. `settle_down` later removes the entries."""
        names = {number: name for name in self._storage.list("") if (number := _number(name)) is not None}
        of_spark = {
            number: data
            for number, name in names.items()
            if (data := self._storage.read(name)) is not None and is_of_spark(data)
        }
        newest = max((number for number in of_spark if number <= reached), default=-1)
        covered = [parsed_name(name) or (0, -1) for name in self._run_names()]
        if newest < 0 or any(first == 0 and last >= newest for first, last in covered):
            return
        compact = max((n for n, name in names.items() if name.endswith(_COMPACT) and n <= newest), default=-1)
        needed = range(max(compact, 0), newest + 1)
        missing = next((number for number in needed if number not in of_spark), None)
        if missing is not None:
            raise self._lacks(missing)
        entries = [
            ListedFile(key_of(listed.path), UNKNOWN, number)
            for entry in needed
            for number, listed in decode_of_spark(of_spark[entry], self.name_of, self._where(names[entry]))
            if number <= newest
        ]
        run = run_of(0, newest, entries)
        self._storage.replace(f"{INDEX}/{run.name}", run.to_bytes())

    def _cover(self, reached: int) -> Iterator[ListRun]:
        """Runs that together cover all lists from the first one, without a gap."""
        spans = [parsed_name(name) or (0, -1) for name in self._run_names()]
        wanted = 0
        while fitting := [last for first, last in spans if first == wanted and last <= reached]:
            yield open_run(self.folder, f"{wanted}-{max(fitting)}")
            wanted = max(fitting) + 1

    # --- names ---------------------------------------------------------------------------------------------

    def find(self, names: Sequence[str]) -> Mapping[str, Sequence[tuple[int, int]]]:
        """For each of the names that was read: (stamp, number of the list), for every time that it was read."""
        keys = [key_of(name) for name in names]
        with self._lock:
            runs, found = self._runs, {key: list(self._recent.get(key, ())) for key in keys}
        for run in runs:
            for key, entries in run.find(keys).items():
                found[key].extend(entries)
        return {name: entries for name, key in zip(names, keys, strict=True) if (entries := found[key])}

    # --- lists ---------------------------------------------------------------------------------------------

    def write(self, number: int, files: Sequence[Listed]) -> ListPosition:
        """Write a list durably and return its position.

        Replaces a list of this number, which no position refers to yet.
        """
        data = encode(files)
        self._storage.replace(str(number), data)
        with self._lock:
            self._forget(number)
            self._remember(number, files)
        return ListPosition(logOffset=number, digest=digest_of(data))

    def files_of(self, number: int, digest: str = "") -> list[Listed]:
        """The files of a list. `digest`: what the list must have; empty: any.

        Raises RECORD_CORRUPT if the list is missing or has another digest.
        """
        name = next((each for each in (str(number), f"{number}{_COMPACT}") if self._is_there(each)), str(number))
        data, where = self._storage.read(name), self._where(name)
        if data is None:
            raise self._lacks(number)
        if digest and digest_of(data) != digest:
            raise self._corrupt(f"the list with the digest {digest}", f"one with {digest_of(data)}", where)
        if is_of_spark(data):
            found = decode_of_spark(data, self.name_of, where)
            return [listed for entry, listed in found if entry == number]
        return decode(data, where)

    def lists_up_to(self, number: int) -> list[int]:
        """The numbers up to `number` of tidegate's lists that still exist."""
        return [each for each in sorted(map(int, filter(str.isdigit, self._storage.list("")))) if each <= number]

    # --- what grows is put together ------------------------------------------------------------------------

    def settle_down(self, done: int, needed: Callable[[int], bool] = lambda _number: False) -> None:
        """Move the lists up to `done`, which no replay needs, into runs, and remove files that were replaced long
        enough ago.

        `needed`: returns True for a list that must be kept for another purpose. It may run for long, beside other
        calls.
        """
        covered = self._runs[-1].last if self._runs else -1
        if done - covered >= self.lists_in_a_run or (done > covered and len(self._recent) > _NAMES_IN_MEMORY):
            self._add(self._run_of_lists(covered + 1, done), done)
        while len(self._runs) > 1 and len(self._runs[-2]) <= _GROWTH * len(self._runs[-1]):
            self._join_last_two(done)
        left: list[tuple[int, str]] = []
        for since, name in self._superseded:
            number = _number(name)
            if done - since < self.epochs_kept or (number is not None and needed(number)):
                left.append((since, name))
            else:
                self._storage.delete(name)
        self._superseded = left

    def _run_of_lists(self, first: int, last: int) -> ListRun:
        entries = (
            ListedFile(key_of(each.path), _stamp(each), number)
            for number in range(first, last + 1)
            for each in self.files_of(number)
        )
        return run_of(first, last, entries)

    def _add(self, run: ListRun, done: int) -> None:
        stored = self._stored(run)
        with self._lock:
            self._runs = (*self._runs, stored)
            for number in range(run.first, run.last + 1):
                self._forget(number)
        self._superseded.extend((done, str(number)) for number in range(run.first, run.last + 1))

    def _join_last_two(self, done: int) -> None:
        older, newer = self._runs[-2:]
        stored = self._stored(merged(older, newer))
        with self._lock:
            self._runs = (*self._runs[:-2], stored)
        self._superseded.extend((done, f"{INDEX}/{run.name}") for run in (older, newer))

    def _stored(self, run: ListRun) -> ListRun:
        self._storage.replace(f"{INDEX}/{run.name}", run.to_bytes())
        return open_run(self.folder, run.name)

    # --- helpers -------------------------------------------------------------------------------------------

    def _remember(self, number: int, files: Iterable[Listed]) -> None:
        keys = self._recent_keys.setdefault(number, [])
        for each in files:
            key = key_of(each.path)
            keys.append(key)
            self._recent.setdefault(key, []).append((_stamp(each), number))

    def _forget(self, number: int) -> None:
        for key in self._recent_keys.pop(number, ()):
            kept = [entry for entry in self._recent.get(key, ()) if entry[1] != number]
            if kept:
                self._recent[key] = kept
            else:
                self._recent.pop(key, None)

    def _run_names(self) -> list[str]:
        return [name for name in self._storage.list(INDEX) if parsed_name(name) is not None]

    def _list_names(self, covered: int) -> list[str]:
        return [name for name in self._storage.list("") if (number := _number(name)) is not None and number <= covered]

    def _is_there(self, name: str) -> bool:
        return self._storage.look(name) is not None

    def _where(self, name: str) -> str:
        return f"{self.where}, {self._storage.where(name)}"

    def _lacks(self, number: int) -> TidegateError:
        return self._corrupt(f"the list {number} of files that were read", "no such file", self._where(str(number)))

    def _corrupt(self, expected: str, found: str, where: str) -> TidegateError:
        return TidegateError(
            Code.RECORD_CORRUPT,
            expected=expected,
            found=found,
            where=where,
            next_step="put the file back from a copy: without it the files that were read are not known",
        )


def _stamp(listed: Listed) -> int:
    return UNKNOWN if listed.size is None else stamp_of(listed.size, listed.mtime_ns)


def _number(name: str) -> int | None:
    """The number in the file name of a list, or of an entry of Spark's own source; None for another file."""
    number = name.removesuffix(_COMPACT)
    return int(number) if number.isdigit() else None
