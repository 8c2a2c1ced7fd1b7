"""The log of one query for a file source: the list of each epoch, and an index of all names in them.

    sources/<place>/<number>-<digest>            the list of an epoch. It is written before Spark records the epoch's
                                                 end, which names it by number and digest
    sources/<place>/index/<first>-<last>.<token> a run: the names of many consecutive lists

What counts is what the newest position leads to: its list, and from there one list after the other. The names of all
lists but the newest are in runs. Runs are merged as they grow, so that there are few. The name of a run shows its
lists, and each entry in it has the number of its list. So a source that resumes from an older position can skip later
entries. A file that a merge has replaced is kept for some epochs, in case a copy of the folder is being made.

No lease prevents that a driver which was paused writes or removes a file late. So no name is used twice: a late write
adds a file to which no position leads, and a late removal hits a file that its driver had seen. A list to which no
position leads is removed when a later epoch is done, because an older driver may have planned it, and a newer one may
be about to record it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex

from tidegate.core.errors import Code, TidegateError
from tidegate.core.spark_log import is_entry_of_spark, source_entry
from tidegate.disk.side_by_side import side_by_side
from tidegate.sources.files.lists import (
    Listed,
    ListPosition,
    decode,
    decode_of_spark,
    digest_of,
    encode,
    followed_by,
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
    _lists: dict[int, ListPosition] = field(default_factory=dict[int, ListPosition])
    """By number, the lists to which the newest position leads, and that still exist."""
    _runs: tuple[ListRun, ...] = ()
    _recent: dict[Key, list[tuple[int, int]]] = field(default_factory=dict[Key, list[tuple[int, int]]])
    _recent_keys: dict[int, list[Key]] = field(default_factory=dict[int, list[Key]])
    _superseded: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._storage = open_storage(self.folder)

    # --- opening -------------------------------------------------------------------------------------------

    def open(self, find_reached: Callable[[], ListPosition]) -> None:
        """Load the names of all lists up to the newest position in Spark's log. Raises RECORD_CORRUPT if a list is
        missing and in no run.

        `find_reached`: reads that position; `BEGIN` if there is none. It is called when the folder has been listed.
        Runs end at done epochs, so a run of the list that goes beyond the position is of another timeline: it came with
        a copy of the folder.
        """
        self._storage.remove_leftovers("")
        self._storage.remove_leftovers(INDEX)
        names, run_names = self._storage.list(""), [name for name in self._storage.list(INDEX) if parsed_name(name)]
        reached = find_reached()
        run_names = [each for name in run_names for each in self._cut(name, reached.logOffset)]
        led_to = list(self._led_to(reached, names))
        if led_to[-1].is_of_spark:
            newest_of_spark = led_to[-1].logOffset
            run_names += self._take_over(newest_of_spark, names, run_names)
            led_to += [ListPosition(logOffset=number) for number in range(newest_of_spark)]
        self._lists = {each.logOffset: each for each in led_to if each.name in names}
        self._runs = tuple(self._cover(reached.logOffset, run_names))
        for number in range(self._covered + 1, reached.logOffset + 1):
            self._remember(number, self.files_of(self._list(number)))
        self._superseded = list(self._unused(reached.logOffset, names, run_names))

    def _cut(self, run_name: str, reached: int) -> list[str]:
        """The names of the runs that stay of a run: itself, its begin, or none."""
        first, last = parsed_name(run_name) or (0, 0)
        if last <= reached:
            return [run_name]
        left = [open_run(self.folder, run_name).up_to(reached)] if first <= reached else []
        for run in left:
            self._put(run)
        self._storage.delete(f"{INDEX}/{run_name}")
        return [run.name for run in left]

    def _led_to(self, reached: ListPosition, names: Sequence[str]) -> Iterator[ListPosition]:
        """The lists to which a position leads, the newest first: the last one is gone, or not of tidegate."""
        wanted = [name for name in names if source_entry(name) is not None and not is_entry_of_spark(name)]
        before = dict(zip(wanted, side_by_side(self._name_before, wanted), strict=True))
        yield reached
        while reached.name in before:
            reached = before[reached.name] or self.before(reached)
            yield reached

    def _name_before(self, name: str) -> ListPosition | None:
        """The list before the one of this name; None if that one is damaged, which only matters if it is needed."""
        number, _, digest = name.partition("-")
        try:
            return self.before(ListPosition(logOffset=int(number), digest=digest))
        except TidegateError:
            return None

    def _take_over(self, newest: int, names: Sequence[str], run_names: Sequence[str]) -> list[str]:
        """Convert the entries of Spark's own file source up to number `newest` into a run, once. `settle_down` later
        removes the entries. Returns the names of new runs.
        """
        spans = [parsed_name(name) or (0, -1) for name in run_names]
        if newest < 0 or any(first == 0 and last >= newest for first, last in spans):
            return []
        of_spark = {source_entry(name): name for name in names if is_entry_of_spark(name)}
        merged_up_to = [number for number in range(newest + 1) if of_spark.get(number, "").endswith(_COMPACT)]
        entries: list[ListedFile] = []
        for number in range(max(merged_up_to, default=0), newest + 1):
            name = of_spark.get(number, str(number))
            data = self._storage.read(name)
            if data is None:
                raise self._lacks(name)
            entries.extend(
                ListedFile(key_of(listed.path), UNKNOWN, entry)
                for entry, listed in decode_of_spark(data, self.name_of, self._where(name))
                if entry <= newest
            )
        return [self._put(run_of(0, newest, entries)).name]

    def _cover(self, reached: int, run_names: Sequence[str]) -> Iterator[ListRun]:
        """Runs that together cover all lists from the first one, without a gap."""
        by_span = {parsed_name(name) or (0, -1): name for name in run_names}
        wanted = 0
        while fitting := [last for first, last in by_span if first == wanted and last <= reached]:
            yield open_run(self.folder, by_span[wanted, max(fitting)])
            wanted = max(fitting) + 1

    def _unused(self, reached: int, names: Sequence[str], run_names: Sequence[str]) -> Iterator[tuple[int, str]]:
        """The files that are not needed, each with the number of the list behind which it is not."""
        used = {run.name for run in self._runs}
        yield from ((reached, f"{INDEX}/{name}") for name in run_names if name not in used)
        needed = {each.name for each in self._lists.values() if each.logOffset > self._covered}
        for name in names:
            number = source_entry(name)
            if number is not None and name not in needed:
                yield max(number, reached), name

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

    def write(self, after: ListPosition, files: Sequence[Listed]) -> ListPosition:
        """Write the list of the epoch after a position durably, and return where that epoch ends.

        Takes the place of a list after the same position, to which Spark's log does not lead.
        """
        data = encode(files, follows=after.digest, token=token_hex(8))
        end = ListPosition(logOffset=after.logOffset + 1, digest=digest_of(data))
        self._storage.put_if_absent(end.name, data)
        with self._lock:
            self._forget(end.logOffset)
            self._remember(end.logOffset, files)
            self._lists[end.logOffset] = end
        return end

    def files_of(self, position: ListPosition) -> list[Listed]:
        """The files of the list in which a position ends.

        Raises RECORD_CORRUPT if the list is missing or has another digest.
        """
        if not position.is_of_spark:
            return decode(*self._read(position))
        number = position.logOffset
        name = next((each for each in (str(number), f"{number}{_COMPACT}") if self._is_there(each)), str(number))
        data = self._storage.read(name)
        if data is None:
            raise self._lacks(name)
        return [listed for entry, listed in decode_of_spark(data, self.name_of, self._where(name)) if entry == number]

    def before(self, position: ListPosition) -> ListPosition:
        """The position that the list of this one follows. Raises RECORD_CORRUPT as `files_of` does."""
        digest = "" if position.is_of_spark else followed_by(*self._read(position))
        return ListPosition(logOffset=position.logOffset - 1, digest=digest)

    def between(self, start: ListPosition, end: ListPosition) -> list[ListPosition]:
        """The lists behind `start` up to `end`, the oldest first. Raises RECORD_CORRUPT as `files_of` does."""
        found = [end] if start.logOffset < end.logOffset else []
        while found and found[-1].logOffset > start.logOffset + 1:
            found.append(self.before(found[-1]))
        return found[::-1]

    def lists_up_to(self, number: int) -> list[ListPosition]:
        """The lists up to this number that epochs have read, and that still exist."""
        with self._lock:
            return [self._lists[each] for each in sorted(self._lists) if each <= number]

    def _read(self, position: ListPosition) -> tuple[bytes, str]:
        """The list of tidegate in which a position ends, and its place."""
        data, where = self._storage.read(position.name), self._where(position.name)
        if data is None:
            raise self._lacks(position.name)
        if digest_of(data) != position.digest:
            raise self._corrupt(f"the list with the digest {position.digest}", f"one with {digest_of(data)}", where)
        return data, where

    # --- what grows is put together ------------------------------------------------------------------------

    def settle_down(self, newest_done: ListPosition, needed: Callable[[int], bool] = lambda _number: False) -> None:
        """Move the lists up to a done epoch's, which no replay needs, into runs, and remove files that were replaced
        long enough ago.

        Does nothing for a position to which this log does not lead: of another place, or of a newer driver. `needed`:
        returns True for a list that must be kept for another purpose. It may run for long, beside other calls.
        """
        done, covered = newest_done.logOffset, self._covered
        if newest_done != self._lists.get(done) and not (newest_done.is_of_spark and done <= covered):
            return
        if done - covered >= self.lists_in_a_run or (done > covered and len(self._recent) > _NAMES_IN_MEMORY):
            self._add(self._run_of_lists(covered + 1, done), done)
        while len(self._runs) > 1 and len(self._runs[-2]) <= _GROWTH * len(self._runs[-1]):
            self._join_last_two(done)
        left: list[tuple[int, str]] = []
        for since, name in self._superseded:
            number = self._listed_number(name)
            if done - since < self.epochs_kept or (number is not None and needed(number)):
                left.append((since, name))
                continue
            self._storage.delete(name)
            if number is not None:
                with self._lock:
                    del self._lists[number]
        self._superseded = left

    def _run_of_lists(self, first: int, last: int) -> ListRun:
        entries = (
            ListedFile(key_of(each.path), _stamp(each), number)
            for number in range(first, last + 1)
            for each in self.files_of(self._list(number))
        )
        return run_of(first, last, entries)

    def _add(self, run: ListRun, done: int) -> None:
        stored = self._stored(run)
        with self._lock:
            self._runs = (*self._runs, stored)
            for number in range(run.first, run.last + 1):
                self._forget(number)
        self._superseded.extend((done, self._list(number).name) for number in range(run.first, run.last + 1))

    def _join_last_two(self, done: int) -> None:
        older, newer = self._runs[-2:]
        stored = self._stored(merged(older, newer))
        with self._lock:
            self._runs = (*self._runs[:-2], stored)
        self._superseded.extend((done, f"{INDEX}/{run.name}") for run in (older, newer))

    def _stored(self, run: ListRun) -> ListRun:
        return open_run(self.folder, self._put(run).name)

    def _put(self, run: ListRun) -> ListRun:
        self._storage.put_if_absent(f"{INDEX}/{run.name}", run.to_bytes())
        return run

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

    @property
    def _covered(self) -> int:
        """The number of the newest list whose names are in runs."""
        return self._runs[-1].last if self._runs else -1

    def _list(self, number: int) -> ListPosition:
        found = self._lists.get(number)
        if found is None:
            raise self._lacks(str(number))
        return found

    def _listed_number(self, name: str) -> int | None:
        """The number of a list that an epoch has read; None for another file."""
        number = source_entry(name)
        listed = None if number is None else self._lists.get(number)
        return number if listed is not None and listed.name == name else None

    def _is_there(self, name: str) -> bool:
        return self._storage.look(name) is not None

    def _where(self, name: str) -> str:
        return f"{self.where}, {self._storage.where(name)}"

    def _lacks(self, name: str) -> TidegateError:
        return self._corrupt(f"the list {name} of files that were read", "no such file", self._where(name))

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
