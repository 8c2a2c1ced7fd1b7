"""A started job as its program has it: wait for it, stop it, ask how it is."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Literal

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.operate.endings import EndMode
from tidegate.spark.interrupts import main_thread_waits
from tidegate.spark.job_life import JobLife
from tidegate.spark.last_savepoint import no_last_savepoint

_LOOK_SECONDS = 0.05


class JobHandle(JobLife):
    """Queries side by side; when one fails for good the others end cleanly and the job fails with its error."""

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the job has ended; raises what made it fail. False when `timeout_seconds` passed first.

        Ctrl-C meanwhile (in a notebook: an interrupt of this cell) stops the job cleanly, and it has ended then. A
        second one is raised.
        """
        with main_thread_waits():
            try:
                ended = self._ended.wait(timeout_seconds)
            except KeyboardInterrupt:
                if self._asked.of_this_start:
                    raise
                self.ask_to_stop()
                ended = self._ended.wait()
        if ended and self._error is not None:
            raise self._error
        return ended

    def await_end(self, timeout_seconds: float | None = None) -> bool:
        """As `wait`, without an error that says how it ended."""
        return self._ended.wait(timeout_seconds)

    def stop(self, timeout_seconds: float | None = None, *, drain: bool = False) -> None:
        """End with the epoch that is under way done, and block until then; what is undecided comes again.

        With `drain` for good: every window and every event-time timer comes out as at the end of time, and no start
        goes on from there. Rows that have not been read by now stay in the source. TG-JOB-NOT-DRAINED tells that the
        job has ended otherwise, by itself or by a cancel.

        When a sink does not take a decided epoch within `timeout_seconds` (else the setting `stop_timeout`), the job
        ends with TG-SINK-UNAVAILABLE, and the next start commits it.
        """
        (self.ask_to_drain if drain else self.ask_to_stop)(timeout_seconds)
        self.wait()
        if drain and not self.is_drained:
            raise self.not_drained()

    def cancel(self) -> None:
        """End at once, and block until then. What is undecided is aborted, and its input comes again.

        What is decided and no sink takes right now is left to the next start: that is no error of a cancel. With
        checkpointing.retention=delete the job's checkpoints go, unless it has failed or has left something so.
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
        """As `stop`, with a savepoint of the last epoch, taken when every query has ended; its folder. It is waited
        for without a limit, unless somebody asks for the end of the job once more. `format`: see `savepoint`. With
        `drain` it shows what the job has ended with for good: it can be read, and no job goes on from it.

        What is known to stand against it is raised before anything is stopped. Later it is what made the job fail,
        SINK_UNAVAILABLE for a decided epoch that waits for its sink, or what the disk had to say: the job has ended,
        and `tidegate stop -p` takes what savepoint is missing.
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
        """As `cancel`, with a savepoint of the newest done epoch, taken when every query has ended; its folder. Raises
        as `stop_with_savepoint`."""
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

    def checkpoint(self, timeout_seconds: float | None = None) -> dict[str, int] | None:
        """Wait until everything is done that the job has read by now; the newest done epoch of each query.

        None when `timeout_seconds` passed, or the job ended, before. Raises what made the job fail.
        """
        targets = self.under_way()
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not self.has_done(targets):
            if self.wait(_LOOK_SECONDS) or (end is not None and time.monotonic() >= end):
                return self.finished() if self.has_done(targets) else None
        return self.finished()

    def savepoint(
        self,
        folder: str | Path | None = None,
        *,
        id: str | None = None,
        format: Literal["native", "canonical"] = "native",
        timeout_seconds: float | None = None,
    ) -> Path | None:
        """Take a savepoint of everything that the job has read by now; its folder, a new one below `folder` (else
        `savepoints.dir`). The job goes on meanwhile. A savepoint of the same `id` is taken once. `format`: Spark's own
        files as they are, or state as Parquet, which anyone reads and any backend takes.

        None when the epochs under way were not done within `timeout_seconds`; it is copied without a limit. Raises
        REQUEST_REFUSED when the job has ended before, SAVEPOINT_CUT_OFF when it ends meanwhile: it waits for none.
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
