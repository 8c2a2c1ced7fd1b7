"""The clerk's side of savepoints: has those begun that are asked for, and tells what becomes of each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.core.errors import Code, TidegateError
from tidegate.jobs.control import Outcome, Request
from tidegate.jobs.copy_progress import CopyProgress, drop_all_progress, drop_progress, write_progress
from tidegate.spark.savepointing import Taking

if TYPE_CHECKING:
    from tidegate.spark.handle import JobHandle


@dataclass(frozen=True, slots=True)
class Word:
    """What is to be answered to a request."""

    outcome: Outcome
    detail: str
    epochs: Mapping[str, int] = field(default_factory=dict[str, int])
    savepoint: str | None = None


class SavepointRequests:
    """The requests for savepoints that were not answered yet."""

    def __init__(self, job_folder: Path) -> None:
        self._job_folder = job_folder
        self._told_at = float("-inf")
        self._targets: dict[str, Mapping[str, int]] = {}
        """What each must reach before it is begun, by the request's id."""
        self._taking: dict[str, Taking] = {}

    def begin(self) -> None:
        """A new driver has the desk."""
        drop_all_progress(self._job_folder)

    def look_after(self, handle: JobHandle, request: Request) -> Word | None:
        """What is to be answered; None while it is under way. It is of what a checkpoint would be, and begun when that
        is done."""
        taking = self._taking.get(request.id)
        try:
            if taking is None:
                self._begin(handle, request)
                return None
        except Exception as error:  # noqa: BLE001 (answered: whatever went wrong, who asks is not left without a word)
            self._forget(request)
            return word_of(error)
        if not taking.is_over():
            self._tell(taking)
            return None
        return self._become(taking, request)

    def at_the_end(self, handle: JobHandle, request: Request, ended: str) -> Word:
        """What is to be answered when the job has ended, which has called off what was under way."""
        taking = self._taking.get(request.id)
        if taking is not None:
            return self._become(taking, request)
        self._forget(request)
        return Word(Outcome.FAILED, f"no savepoint was begun: {ended}", handle.finished())

    def _begin(self, handle: JobHandle, request: Request) -> None:
        savepoints = handle.savepoints()
        savepoints.check(request.id, request.into)
        if handle.has_done(self._targets.setdefault(request.id, handle.under_way())):
            self._taking[request.id] = savepoints.begin(request.id, request.into)

    def _tell(self, taking: Taking) -> None:
        """Say how far it is, once a second at most."""
        total, now = taking.copying.total_bytes, time.monotonic()
        if total and now - self._told_at >= _TOLD_SECONDS:
            self._told_at = now
            progress = CopyProgress(copied_bytes=taking.copying.copied_bytes, total_bytes=total)
            write_progress(self._job_folder, taking.id, progress)

    def _become(self, taking: Taking, request: Request) -> Word:
        self._forget(request)
        try:
            savepoint = taking.result()
        except Exception as error:  # noqa: BLE001 (answered, as above)
            return word_of(error)
        epochs = {query.done.query: query.done.epoch for query in savepoint.record.queries}
        return Word(Outcome.DONE, "the savepoint is whole", epochs, str(savepoint.folder))

    def _forget(self, request: Request) -> None:
        self._targets.pop(request.id, None)
        self._taking.pop(request.id, None)
        drop_progress(self._job_folder, request.id)


_TOLD_SECONDS = 1.0


def word_of(error: Exception) -> Word:
    """What is answered for a savepoint that is not there."""
    if not isinstance(error, TidegateError):
        return Word(Outcome.FAILED, f"{type(error).__name__}: {error}: the log of the job's driver says more")
    failed = error.catalogue_entry is Code.SAVEPOINT_CUT_OFF
    return Word(Outcome.FAILED if failed else Outcome.REFUSED, in_one_line(error))


def in_one_line(error: TidegateError) -> str:
    """The error with its code."""
    return f"{error.code}: {what_waits(error)}"


def what_waits(error: TidegateError) -> str:
    """Where, what was expected, what was found, what next."""
    return f"{error.where}: expected {error.expected}, found {error.found}; {error.next_step}"
