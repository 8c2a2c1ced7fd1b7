"""The program's handle of a started job: wait for it, stop it, read its state."""

from __future__ import annotations

import secrets
import threading
import time
from pathlib import Path
from typing import Literal

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.operate.client import JobClient
from tidegate.operate.endings import AskedOf, EndMode
from tidegate.spark.interrupts import main_thread_waits
from tidegate.spark.job_life import JobLife
from tidegate.spark.last_savepoint import no_last_savepoint

_LOOK_SECONDS = 0.05
_THREAD_SECONDS = 1.0
"""A call into a JVM that does not answer holds a thread of the job for longer; nothing waits for that."""


class JobHandle(JobLife):
    """Queries run side by side. If one fails for good, the others end cleanly and the job fails with its error."""

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the job has ended. Raises the error of a failed job. False if `timeout_seconds` passed first.

        Ctrl-C during the wait (in a notebook: an interrupt of this cell) stops the job cleanly, and then the call
        returns. A second Ctrl-C raises KeyboardInterrupt.
        """
        with main_thread_waits():
            try:
                ended = self._ended.wait(timeout_seconds)
            except KeyboardInterrupt:
                if self._asked.asked_of is AskedOf.THIS_START:
                    raise
                self.ask_to_stop()
                ended = self._ended.wait()
        if ended:
            self._join()
        if ended and self.outcome.error is not None:
            raise self.outcome.error
        return ended

    def _join(self) -> None:
        """Wait for the threads of the job. They wake up when it ends, and Python itself may crash if it ends then."""
        for each in (self._watcher, self._clock):
            if each.is_alive() and each is not threading.current_thread():
                each.join(_THREAD_SECONDS)

    def await_end(self, timeout_seconds: float | None = None) -> bool:
        """Like `wait`, but an error of the job is not raised."""
        return self._ended.wait(timeout_seconds)

    def stop(self, timeout_seconds: float | None = None, *, drain: bool = False) -> None:
        """Finish the current epoch, then end. Blocks until the job has ended. The next start runs undecided epochs
        again.

        With `drain` the end is final: every window and every event-time timer fires as at the end of time, and no start
        resumes from there. Rows that have not been read yet stay in the source. Raises TG-JOB-NOT-DRAINED if the job
        has ended in another way, by itself or by a cancel.

        If a sink does not take a decided epoch within `timeout_seconds` (default: the setting `stop_timeout`), the job
        ends with TG-SINK-UNAVAILABLE, and the next start commits the epoch.
        """
        (self.ask_to_drain if drain else self.ask_to_stop)(timeout_seconds)
        self.wait()
        if drain and not self.is_drained:
            raise self.outcome.not_drained()

    def cancel(self) -> None:
        """End the job at once. Returns when it has ended. Undecided epochs are aborted; the next start replays their
        input.

        A decided epoch whose sink is not ready is left to the next start, without an error. With
        checkpointing.retention=delete the job's checkpoints are deleted, unless it has failed or has left such an
        epoch.
        """
        self.ask_to_cancel()
        self.wait()

    def stop_with_savepoint(
        self,
        folder: str | Path | None = None,
        *,
        id: str | None = None,
        format: Literal["native", "canonical"] = "native",
        timeout_seconds: float | None = None,
        drain: bool = False,
    ) -> Path:
        """Like `stop`, with a savepoint of the last epoch, taken after every query has ended. Returns its folder.

        The wait for the savepoint has no limit, unless another request ends the job sooner. `format`: see `savepoint`.
        A savepoint after `drain` holds the final state: it can be read, but no job resumes from it.

        Checks run before anything is stopped, and raise. Later errors are the error of the job, SINK_UNAVAILABLE for a
        decided epoch that waits for its sink, or an error of the disk. The job has then ended, and `tidegate stop -p`
        takes the missing savepoint.
        """
        ending = EndMode.DRAIN if drain else EndMode.STOP
        return self._end_with(ending, _named(id), folder, _form(format), timeout_seconds)

    def cancel_with_savepoint(
        self,
        folder: str | Path | None = None,
        *,
        id: str | None = None,
        format: Literal["native", "canonical"] = "native",
    ) -> Path:
        """Like `cancel`, with a savepoint of the newest done epoch, taken after every query has ended. Returns its
        folder. Raises like `stop_with_savepoint`.
        """
        return self._end_with(EndMode.CANCEL, _named(id), folder, _form(format))

    def _end_with(
        self,
        ending: EndMode,
        id: str,
        folder: str | Path | None,
        form: SavepointFormat,
        timeout_seconds: float | None = None,
    ) -> Path:
        self.savepoints().look_at(id, None if folder is None else str(folder), form).result()
        self.ask_to_end_with_savepoint(ending, id, folder, form, timeout_seconds)
        self.wait()
        if self.last_savepoint.error is not None:
            raise self.last_savepoint.error
        if self.last_savepoint.savepoint is None:
            raise no_last_savepoint(self.name, "the job has ended by itself")
        return self.last_savepoint.savepoint.folder

    def show(self, every_seconds: float | None = None) -> None:
        """In a notebook: show the job in this cell. The display lives on while other cells run, until the job has
        ended. Returns at once. `every_seconds`: between two looks. Raises REQUEST_REFUSED outside a notebook."""
        self._client.show(every_seconds)

    def _repr_html_(self) -> str:
        """In a notebook: state, graph, queries with their lag, last epochs."""
        return self._client.as_html()

    @property
    def _client(self) -> JobClient:
        generation = next(iter(self._folders.values()))
        return JobClient(generation.parent.parent.parent)

    def checkpoint(self, timeout_seconds: float | None = None) -> dict[str, int] | None:
        """Wait until all input that the job has read by now is done. Returns the newest done epoch of each query.

        None if `timeout_seconds` passed, or the job ended, before that. Raises the error of a failed job.
        """
        targets = self.figures.under_way()
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not self.figures.has_done(targets):
            if self.wait(_LOOK_SECONDS) or (end is not None and time.monotonic() >= end):
                return self.figures.finished() if self.figures.has_done(targets) else None
        return self.figures.finished()

    def savepoint(
        self,
        folder: str | Path | None = None,
        *,
        id: str | None = None,
        format: Literal["native", "canonical"] = "native",
        timeout_seconds: float | None = None,
    ) -> Path | None:
        """Take a savepoint of all input that the job has read by now. Returns its folder, a new one below `folder`
        (default: `savepoints.dir`). The job continues during the copy.

        A savepoint of the same `id` is taken once. `format`: Spark's own files unchanged, or state as Parquet, which
        any program can read and any backend can restore.

        None if the current epochs were not done within `timeout_seconds`; the copy itself has no limit. Raises
        REQUEST_REFUSED if the job has already ended, SAVEPOINT_CUT_OFF if it ends during the copy, because the end of a
        job waits for no savepoint.
        """
        savepoints, form = self.savepoints(), _form(format)
        named, into = _named(id), None if folder is None else str(folder)
        savepoints.check(named, into, form)
        if self.checkpoint(timeout_seconds) is None and not self._ended.is_set():
            return None
        return savepoints.begin(named, into, form).result().folder


def _form(text: str) -> SavepointFormat:
    known = {form.value: form for form in SavepointFormat}
    if text not in known:
        raise TidegateError(
            Code.REQUEST_REFUSED,
            expected=f"the format of a savepoint: {' or '.join(known)}",
            found=repr(text),
            where="format=",
            next_step="name one of them",
        )
    return known[text]


def _named(savepoint_id: str | None) -> str:
    return secrets.token_hex(4) if savepoint_id is None else savepoint_id
