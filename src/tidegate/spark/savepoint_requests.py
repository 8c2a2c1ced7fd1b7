"""The clerk's requests for savepoints: begins each of them, and reports its result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidegate.core.errors import Code, TidegateError
from tidegate.operate.beat import JobState
from tidegate.operate.control import Outcome, Request
from tidegate.operate.copy_progress import CopyProgress, drop_all_progress, drop_progress, write_progress
from tidegate.operate.job_end import ANSWER, Wish, wrong_of
from tidegate.savepoints.copying import Copying
from tidegate.spark.savepointing import Taking
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob


@dataclass(frozen=True, slots=True)
class Word:
    """The answer to a request."""

    outcome: Outcome
    detail: str
    epochs: Mapping[str, int] = field(default_factory=dict[str, int])
    savepoint: str | None = None


class SavepointRequests:
    """The requests for savepoints without an answer yet."""

    def __init__(self, job_folder: Folder) -> None:
        self._job_folder = job_folder
        self._told_at = float("-inf")
        self._targets: dict[str, Mapping[str, int]] = {}
        """The epochs that must be done before each begins, by the request's id."""
        self._looked: dict[str, Future[None]] = {}
        """The check of the folder, before a job ends with a savepoint."""
        self._taking: dict[str, Taking] = {}

    def begin(self) -> None:
        """A new driver has the desk."""
        drop_all_progress(self._job_folder)

    def look_after(self, handle: LiveJob, request: Request) -> Word | None:
        """Serve a request for a savepoint. Returns the answer, or None while the savepoint is being taken.

        The savepoint covers the same epochs as a checkpoint would, and begins when they are done.
        """
        taking = self._taking.get(request.id)
        try:
            if taking is None:
                self._begin(handle, request)
                return None
        except Exception as error:  # noqa: BLE001 (every request gets an answer)
            self._forget(request)
            return word_of(error)
        if not taking.is_over():
            self.tell(request.id, taking.copying)
            return None
        return self._become(taking, request)

    def at_the_end(self, handle: LiveJob, request: Request, ended: str) -> Word:
        """The answer after the job has ended and has canceled the running savepoint."""
        taking = self._taking.get(request.id)
        if taking is not None:
            return self._become(taking, request)
        self._forget(request)
        return Word(Outcome.FAILED, f"no savepoint was begun: {ended}", handle.figures.finished())

    def may_go_there(self, handle: LiveJob, request: Request) -> bool:
        """True if the folder for a savepoint of the job's end has been checked; raises the violation."""
        if request.id not in self._looked:
            self._looked[request.id] = handle.savepoints().look_at(request.id, request.into, request.format)
        looked = self._looked[request.id]
        if looked.done():
            del self._looked[request.id]
            looked.result()
        return looked.done()

    def of_the_end(self, handle: LiveJob, request: Request, error: BaseException | None, *, asked: bool) -> Word:
        """The answer to a request to end the job with a savepoint. `asked`: the request reached the job."""
        self._forget(request)
        last, finished = handle.last_savepoint, handle.figures.finished()
        ended = f"the job is {handle.outcome.end_state(error).value}"
        why = last.error or error
        wish = Wish.NOT_HEARD if not asked else Wish.NOT_SAVED if last.savepoint is None else Wish.SAVED
        outcome = ANSWER.cell(wish, wrong_of(why))
        if wish is Wish.NOT_HEARD:
            return Word(outcome, f"{ended}: it had ended before the request; request it again", finished)
        if last.savepoint is not None:
            beside = "" if why is None else f": {why}"
            detail = f"{ended}, with a savepoint of its end{beside}"
            return Word(outcome, detail, finished, str(last.savepoint.found_at))
        if isinstance(why, TidegateError):
            shown = what_waits(why) if outcome is Outcome.PENDING else in_one_line(why)
        else:
            shown = f"{type(why).__name__}: {why}"
        return Word(outcome, f"{ended}, without a savepoint: {shown}", finished)

    def _begin(self, handle: LiveJob, request: Request) -> None:
        savepoints = handle.savepoints()
        savepoints.check(request.id, request.into, request.format)
        if handle.figures.has_done(self._targets.setdefault(request.id, handle.figures.under_way())):
            self._taking[request.id] = savepoints.begin(request.id, request.into, request.format)

    def tell(self, request_id: str, copying: Copying) -> None:
        """Report the progress of a request's savepoint, once a second at most."""
        now = time.monotonic()
        if copying.total_bytes and now - self._told_at >= _TOLD_SECONDS:
            self._told_at = now
            write_progress(self._job_folder, request_id, CopyProgress.of(copying))

    def _become(self, taking: Taking, request: Request) -> Word:
        self._forget(request)
        try:
            savepoint = taking.result()
        except Exception as error:  # noqa: BLE001 (answered, as above)
            return _word_of_begun(error)
        epochs = {query.done.query: query.done.epoch for query in savepoint.record.queries}
        return Word(Outcome.DONE, "the savepoint is whole", epochs, str(savepoint.found_at))

    def _forget(self, request: Request) -> None:
        self._targets.pop(request.id, None)
        self._taking.pop(request.id, None)
        drop_progress(self._job_folder, request.id)


_TOLD_SECONDS = 1.0


def word_of(error: Exception) -> Word:
    """The answer for a missing savepoint."""
    if not isinstance(error, TidegateError):
        return Word(Outcome.FAILED, f"{type(error).__name__}: {error}: the log of the job's driver says more")
    failed = error.catalogue_entry is Code.SAVEPOINT_CUT_OFF
    return Word(Outcome.FAILED if failed else Outcome.REFUSED, in_one_line(error))


def _word_of_begun(error: Exception) -> Word:
    """The answer for a savepoint that was begun: an error of the disk is no refusal."""
    refused = isinstance(error, TidegateError) and error.catalogue_entry in _REFUSALS
    return word_of(error) if refused else replace(word_of(error), outcome=Outcome.FAILED)


_REFUSALS = frozenset({Code.REQUEST_REFUSED, Code.SAVEPOINT_REFUSED, Code.SAVEPOINT_INCOMPLETE})


def in_one_line(error: TidegateError) -> str:
    """The error with its code."""
    return f"{error.code}: {what_waits(error)}"


def what_waits(error: TidegateError) -> str:
    """Place, expected, found, next step."""
    return f"{error.where}: expected {error.expected}, found {error.found}; {error.next_step}"


def how_it_ended(handle: LiveJob) -> str:
    """The answer for a job that ended without an error."""
    state = handle.outcome.end_state(None)
    drained = ", and drained: nothing resumes from its checkpoint" if handle.outcome.is_drained else ""
    unsaved = ", without a savepoint" if state is JobState.STOPPED and handle.last_savepoint.savepoint is None else ""
    ended = f"the job is {state.value}{drained or unsaved}"
    return ended if handle.outcome.left_behind is None else f"{ended}; {what_waits(handle.outcome.left_behind)}"
