"""The supervisor's view of its job in the job's folder."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.core.errors import Code, TidegateError
from tidegate.operate.beat import Beat, Incarnation
from tidegate.operate.beat_reader import BeatReader
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


class BeatOfJob:
    """The beat of a supervisor's job; None also if its storage does not answer. A job does not end because its
    supervisor cannot read it.
    """

    def __init__(self, folder: Folder) -> None:
        self._reader = BeatReader(folder, self._is_of_driver)
        self._old: Incarnation | None = None
        self._process = -1

    def begin(self) -> None:
        """A driver starts: beats of earlier ones do not count, also if it has the number of an earlier process. After a
        container restart every process has the same number as before.
        """
        before = self._read(self._reader.read_now)
        self._old = None if before is None else before.incarnation

    def of(self, process: int) -> Beat | None:
        """The newest beat that is known, if this driver wrote it."""
        self._process = process
        return self._own(self._read(self._reader.read))

    def last_of(self, process: int) -> Beat | None:
        """The newest beat, if this driver wrote it."""
        self._process = process
        return self._own(self._read(self._reader.read_now))

    def _own(self, beat: Beat | None) -> Beat | None:
        return beat if beat is not None and self._is_of_driver(beat) else None

    def _is_of_driver(self, beat: Beat) -> bool:
        return beat.process == self._process and beat.incarnation != self._old

    @staticmethod
    def _read(read: Callable[[], Beat | None]) -> Beat | None:
        try:
            return read()
        except TidegateError:
            return None


def find_again(folder: Folder) -> None:
    """Raise STORAGE_UNUSABLE if a job that has started is no longer in its folder on a disk. The disk is not mounted
    then, and a driver would create another job of this name on the disk below. Other storages are not mounted: there
    the job was forgotten, which the driver finds out."""
    storage = open_storage(folder)
    if folder.is_local and storage.look(JOB_RECORD) is None:
        raise TidegateError(
            Code.STORAGE_UNUSABLE,
            expected="the record of the job, which has run in this folder",
            found="no such file",
            where=storage.where(JOB_RECORD),
            next_step="mount the disk again, or put the folder back; then start again",
        )
