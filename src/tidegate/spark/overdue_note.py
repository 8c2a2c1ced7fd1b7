"""Records durably that an epoch was cut off, so that its next try has more time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tidegate.core.errors import Code, TidegateError

NOTE_WRITTEN_WITHIN_SECONDS = 30.0
"""Seconds after which a write counts as hanging."""

_LOG = logging.getLogger("tidegate")


class OverdueNote:
    """One note of a run, written in a thread of its own: a disk that hangs may be the reason for the overdue epoch, and
    the run must end all the same.
    """

    def __init__(self, keep: Callable[[int, float], None], fail: Callable[[BaseException], None]) -> None:
        """`keep`: writes an epoch and its time limit in seconds. `fail`: called with the error if `keep` fails."""
        self._keep = keep
        self._fail = fail
        self._thread: threading.Thread | None = None

    def begin(self, epoch: int, seconds: float) -> None:
        """Begin to write it."""
        self._thread = threading.Thread(target=self._write, args=(epoch, seconds), name="tidegate-overdue", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until it is written, or has failed. Raises STORAGE_UNUSABLE for a write that hangs: no other run may
        follow on that disk in this process.
        """
        if self._thread is None:
            return
        self._thread.join(NOTE_WRITTEN_WITHIN_SECONDS)
        if self._thread.is_alive():
            raise _hangs()

    def _write(self, epoch: int, seconds: float) -> None:
        try:
            self._keep(epoch, seconds)
        except BaseException as error:  # noqa: BLE001 (the run ends with it)
            _LOG.error("epoch %d was cut off, and has no more time at its next try: %s", epoch, error)
            self._fail(error)


def _hangs() -> TidegateError:
    return TidegateError(
        Code.STORAGE_UNUSABLE,
        expected=f"the record of an epoch that was cut off to be written within {NOTE_WRITTEN_WITHIN_SECONDS:g} s",
        found="the write has not returned",
        where="the disk with the checkpoint folder",
        next_step="end this process, which keeps the job's locks until then; check that disk, then start again",
    )
