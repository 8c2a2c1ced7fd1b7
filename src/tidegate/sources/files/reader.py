"""Reads a file source for one query: finds the end of the next epoch and the files of each epoch, for Spark's stream
thread.

The list of an epoch is durable before Spark records the epoch's end. From then on the epoch has exactly these files,
unchanged. If one is missing or changed, the epoch fails with an error that names it; it is never read as empty. The
files are checked before the epoch reads them, after Spark has resolved their paths, and after the epoch's tasks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.core.spark_log import same_position
from tidegate.disk.side_by_side import side_by_side
from tidegate.sources.files.choosing import Settling, taken
from tidegate.sources.files.listing import Files, FileStamp, SeenFile
from tidegate.sources.files.lists import BEGIN, Listed, ListPosition
from tidegate.sources.files.log import FileLog
from tidegate.sources.files.losses import GONE, fault_of, lost, lost_meanwhile, some_names
from tidegate.sources.files.names import shown
from tidegate.sources.files.options import Changed, FileOptions, LostFiles
from tidegate.sources.files.runs import UNKNOWN, stamp_of
from tidegate.sources.pace import Epoch, Pace
from tidegate.sources.refusals import other_source

_LOG = logging.getLogger("tidegate")
_PIECE_BYTES = 256
"""The pace counts rows; of files, pieces of this size."""
_IDLE_SECONDS = 0.05
_IDLE_BY_LISTING = 4.0
"""Without news the folder is listed again after so many times of what a listing takes."""
_SETTLES_WITHIN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Wait:
    """The answer "no new files yet, but some have not settled": ask again after `seconds`."""

    seconds: float


@dataclass(slots=True)
class FileReader:
    """A file source as one query reads it. All methods must be called from one thread at a time.

    `committed`: the position of the newest epoch that Spark had committed when the reader was made. `left_out`: files
    that count as read. `names_in`: the JVM's encoding of names on a disk. `epoch_seconds`: returns the duration of the
    newest epoch that Spark has finished, or None.
    """

    options: FileOptions
    files: Files
    log: FileLog
    where: str
    committed: str | None = None
    left_out: Mapping[str, SeenFile] = field(default_factory=dict[str, SeenFile])
    names_in: str = "UTF-8"
    pace: Pace | None = None
    epoch_seconds: Callable[[], float | None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    now_ns: Callable[[], int] = time.time_ns
    _settling: Settling = field(init=False)
    _known: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    _idle: tuple[str | None, float] | None = None
    _given: tuple[str, int] | None = None
    _target: set[str] | None = None
    _target_until: float = 0.0
    _fresh: tuple[ListPosition, list[Listed]] | None = None
    """The list that was made last, whose files have been looked at since."""
    _reading: list[tuple[Listed, FileStamp | None]] = field(default_factory=list[tuple[Listed, FileStamp | None]])

    def __post_init__(self) -> None:
        seconds = 0.0 if self.files.appear_whole else self.options.settle_seconds
        self._settling = Settling(seconds, on_this_clock=self.files.on_this_clock)

    # --- where an epoch ends -------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Read only files that are in the folder now. Called for a run until `caught-up`."""
        self._target = {seen.name for seen in self._new()}
        self._target_until = self.clock() + self._settles_within_seconds

    def latest(self, start: str | None) -> str | Wait | None:
        """The position where the epoch after `start` ends; `start` itself if there are no new files."""
        self._learn(start)
        now = self.clock()
        if self._idle is not None and self._idle[0] == start and now < self._idle[1]:
            return start
        settled, waiting = self._settling.settled(self._wanted(self._new()), now, self.now_ns())
        chosen, unfinished = self._chosen(settled)
        waiting += unfinished
        listed = self._listed(chosen)
        if listed:
            end = self.log.write(BEGIN if start is None else position_of(start), listed)
            self._fresh = end, listed
            self._given = end.to_text(), sum(each.size or 0 for each in listed)
            return end.to_text()
        pause = max(_IDLE_SECONDS, _IDLE_BY_LISTING * (self.clock() - now))
        if self._awaits([*waiting, *chosen]):
            return Wait(pause)
        self._idle = start, self.clock() + pause
        return start

    def _chosen(self, settled: Sequence[SeenFile]) -> tuple[list[SeenFile], list[SeenFile]]:
        """The files of the next epoch, and those that would be among them if no program still wrote them."""
        unfinished: list[SeenFile] = []
        while True:
            chosen = taken(settled, self._limits())
            found = [seen for seen in chosen if not self.files.is_whole(seen.name)]
            if not found:
                return chosen, unfinished
            unfinished += found
            settled = [seen for seen in settled if seen not in found]

    def _learn(self, start: str | None) -> None:
        """Adapt the pace. Spark asks for the end after `start`, so the epoch that ended at `start` is finished."""
        if self._given is None or self._given[0] != start:
            return
        (_, size), self._given = self._given, None
        seconds = None if self.pace is None else self.epoch_seconds()
        if self.pace is not None and seconds is not None:
            self.pace = self.pace.after(Epoch(max(1, size // _PIECE_BYTES), seconds))

    def _limits(self) -> list[tuple[int | None, int | None]]:
        fitting = None if self.pace is None else self.pace.rows * _PIECE_BYTES
        return [(self.options.max_files, self.options.max_bytes), (None, fitting)]

    def _wanted(self, new: Sequence[SeenFile]) -> Sequence[SeenFile]:
        target = self._target
        return new if target is None else [seen for seen in new if seen.name in target]

    def _awaits(self, waiting: Sequence[SeenFile]) -> bool:
        """True if a run until `caught-up` must wait for files that have not settled.

        After a time limit they are skipped.
        """
        if self._target is None or not waiting:
            return False
        if self.clock() < self._target_until:
            return True
        _LOG.warning(
            "%s: %s still changed after %g s, and are left to the next run",
            *(self.where, some_names(seen.name for seen in waiting), self._settles_within_seconds),
            extra={"event": "FilesUnsettled"},
        )
        self._target.difference_update(seen.name for seen in waiting)
        return False

    @property
    def _settles_within_seconds(self) -> float:
        return max(10 * self.options.settle_seconds, _SETTLES_WITHIN_SECONDS)

    def _new(self) -> list[SeenFile]:
        """The files in the folder that were not read yet, or that changed and are to be read again."""
        before, known = self._known, dict[str, tuple[int, int]]()
        unknown: list[SeenFile] = []
        for seen in self.files.list():
            if before.get(seen.name) == (seen.size, seen.mtime_ns):
                known[seen.name] = before[seen.name]
            else:
                unknown.append(seen)
        self._refuse_unreadable(unknown)
        entries = self.log.find([seen.name for seen in unknown])
        new: list[SeenFile] = []
        changed: list[SeenFile] = []
        for seen in unknown:
            read = self._stamps(seen.name, entries.get(seen.name, ()))
            if not read:
                new.append(seen)
            elif UNKNOWN in read or stamp_of(seen.size, seen.mtime_ns) in read:
                known[seen.name] = (seen.size, seen.mtime_ns)
            elif self.options.changed is Changed.REREAD:
                new.append(seen)
            else:
                changed.append(seen)
                known[seen.name] = (seen.size, seen.mtime_ns)
        self._known = known
        if changed:
            self._say_changed(changed)
        return new

    def _refuse_unreadable(self, unknown: Iterable[SeenFile]) -> None:
        """Raise FILE_NAME if Spark cannot open one of the files: such a file is never skipped silently."""
        why_unreadable = self.files.why_unreadable
        wrong = {seen.name: why for seen in unknown if (why := why_unreadable(seen.name, self.names_in)) is not None}
        if wrong:
            raise self._error(
                Code.FILE_NAME,
                "files whose names Spark can open",
                some_names(f"{shown(name)} {why}" for name, why in wrong.items()),
                "rename the files, or leave them out with pattern=",
            )

    def _stamps(self, name: str, entries: Sequence[tuple[int, int]]) -> set[int]:
        left_out = self.left_out.get(name)
        own = set[int]() if left_out is None else {stamp_of(left_out.size, left_out.mtime_ns)}
        return own | {stamp for stamp, _ in entries}

    def _say_changed(self, changed: Sequence[SeenFile]) -> None:
        names = some_names(seen.name for seen in changed)
        if self.options.changed is Changed.REFUSE:
            for seen in changed:
                self._known.pop(seen.name, None)
            raise self._error(
                Code.FILE_CHANGED,
                "files that stay as they were when they were read",
                f"{names} with another size or time",
                'put the files back as they were; or pass changed="ignore", or "reread" to read them as new files',
            )
        _LOG.warning(
            "%s: %s changed after they were read, and are not read again",
            *(self.where, names),
            extra={"event": "FilesChanged"},
        )

    def _listed(self, files: Sequence[SeenFile]) -> list[Listed]:
        """List entries for the files as they are now.

        A file that changed since the listing is left to a later epoch.
        """

        def listed(seen: SeenFile) -> Listed | None:
            ends = self.files.ends(seen.name)
            if self.files.look(seen.name) != seen:
                return None
            return Listed(path=seen.name, size=seen.size, mtime_ns=seen.mtime_ns, ends=ends)

        return [each for each in side_by_side(listed, files) if each is not None]

    # --- what an epoch has ---------------------------------------------------------------------------------

    def batch(self, start: str | None, end: str) -> list[str]:
        """The paths of the files between two positions, for Spark. Raises FILE_LOST and FILE_CHANGED.

        At a start, Spark asks for the newest committed epoch and does not read it. It gets no files, as they may be
        gone.
        """
        self._reading = []
        if same_position(end, self.committed):
            return []
        wanted: list[Listed] = []
        for position in self.log.between(BEGIN if start is None else position_of(start), position_of(end)):
            if self._fresh is not None and self._fresh[0] == position:
                wanted.extend(self._fresh[1])
            else:
                wanted.extend(self._still_there(self.log.files_of(position)))
        self._reading = [(each, self.files.mark(each.path)) for each in wanted]
        return [self.files.path(each.path) for each in wanted]

    def _still_there(self, listed: Sequence[Listed]) -> list[Listed]:
        """The files of an older list that are unchanged.

        Others are skipped with a warning, or raise, as `lost=` says.
        """
        wrong = self._faults(listed)
        if wrong and self.options.lost is LostFiles.REFUSE:
            raise lost(self.where, wrong)
        if wrong:
            _LOG.warning(
                "%s: %d files of an epoch are skipped: %s",
                *(self.where, len(wrong), some_names(f"{path} {fault}" for path, fault in wrong.items())),
                extra={"event": "FilesSkipped"},
            )
        return [each for each in listed if each.path not in wrong]

    def found(self, found: Sequence[tuple[str, int, int]]) -> None:
        """Check the files that Spark has resolved: (path, bytes, time in milliseconds).

        Raises if they differ from the list.
        """
        of_spark = {path: (size, milliseconds) for path, size, milliseconds in found}
        wrong: dict[str, str] = {}
        unit = self.files.time_unit_ns
        for listed, _ in self._reading:
            seen = of_spark.get(self.files.path(listed.path))
            if seen is None:
                wrong[listed.path] = GONE
            elif seen[1] * 1_000_000 // unit != listed.mtime_ns // unit or listed.size not in (None, seen[0]):
                wrong[listed.path] = f"has {seen[0]} bytes now, and had {listed.size}"
        if wrong:
            raise lost_meanwhile(self.where, wrong, self.options.lost)
        if len(of_spark) != len(self._reading):
            raise self._error(
                Code.EPOCH_TORN,
                f"Spark to read the {len(self._reading)} files of the epoch",
                f"{len(of_spark)} files",
                "start the job again (`tidegate run` does by itself): the epoch is undecided and its input comes again",
            )

    def verify(self) -> None:
        """Check the files after the epoch's tasks. Raises if one is missing or changed since Spark got its path."""
        reading, self._reading = self._reading, []
        touched = [listed for listed, mark in reading if mark is None or self.files.mark(listed.path) != mark]
        wrong = self._faults(touched)
        if wrong:
            raise lost_meanwhile(self.where, wrong, self.options.lost)

    def _faults(self, listed: Sequence[Listed]) -> dict[str, str]:
        """What is wrong with each file that is missing or changed."""
        faults = side_by_side(partial(fault_of, self.files), listed)
        return {each.path: fault for each, fault in zip(listed, faults, strict=True) if fault is not None}

    def _error(self, code: Code, expected: str, found: str, next_step: str) -> TidegateError:
        return TidegateError(code, expected=expected, found=found, where=self.where, next_step=next_step)


def position_of(text: str) -> ListPosition:
    """The position in Spark's offsets. Raises SOURCES_CHANGED if another kind of source wrote it."""
    try:
        return parsed(text, ListPosition)
    except Unreadable:
        raise other_source("this file source", text, "the checkpoint") from None
