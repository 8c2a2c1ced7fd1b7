"""The savepoint that ends a job: requested with a stop or a cancel, taken after every query has ended.

It therefore holds exactly the last epochs of the job. A job that resumes from it repeats no row that is visible.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.operate.endings import EndMode
from tidegate.operate.refusals import request_refused
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.refusals import not_at_its_end
from tidegate.spark.savepointing import SavepointTaker, Taking

_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class _LastSavepointOrder:
    id: str
    into: str | None
    form: SavepointFormat
    drained: bool


class LastSavepoint:
    """The last savepoint of one job. Any thread may request it; the watching thread takes it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._asked: _LastSavepointOrder | None = None
        self._passed = False
        """True if it is too late for a request."""
        self._until = math.inf
        self._why = ""
        self.taking: Taking | None = None
        """Its progress, after it has begun."""
        self.savepoint: Savepoint | None = None
        self.error: BaseException | None = None
        """The reason why it is missing although it was requested."""
        self.is_all_that_failed = False
        """True if the job has ended as requested, except for its savepoint."""

    def ask(
        self,
        savepoints: SavepointTaker,
        savepoint_id: str,
        into: str | None,
        form: SavepointFormat = SavepointFormat.NATIVE,
        ending: EndMode = EndMode.STOP,
    ) -> None:
        """Request the end of the job with this savepoint, drained or not. Raises REQUEST_REFUSED if that is impossible;
        nothing has been stopped then.
        """
        savepoints.check(savepoint_id, into, form)
        with self._lock:
            if self._passed:
                raise self._refused(
                    "a job that runs", "it is ending already", "request it again after the job has ended"
                )
            standing = self._asked
            asked = _LastSavepointOrder(savepoint_id, into, form, drained=ending is EndMode.DRAIN)
            if standing is not None and standing != asked:
                raise self._refused("one savepoint of its end", f"{standing.id}, requested before", "wait for it")
            self._asked = asked

    @property
    def is_asked(self) -> bool:
        return self._asked is not None

    @property
    def is_of_a_drain(self) -> bool:
        """True if the job is to be drained and end with it."""
        return self._asked is not None and self._asked.drained

    def limit(self, why: str, seconds: float) -> None:
        """A request wants a faster end of the job: the savepoint is canceled if it is not complete by then."""
        with self._lock:
            until = time.monotonic() + seconds
            if until < self._until:
                self._until, self._why = until, why

    def pass_by(self, error: BaseException | None) -> bool:
        """Every query has ended: no more requests. True if it is to be taken now; `error`: the error against it."""
        with self._lock:
            self._passed = True
            if self._asked is not None:
                self.error = error
            return self._asked is not None and error is None

    def take(self, savepoints: SavepointTaker, look: Callable[[], None]) -> None:
        """Take it, and wait for it; `look` is called regularly. Raises its error, unless a faster end was requested:
        then the job has ended as requested.
        """
        asked = self._asked
        if asked is None:
            return
        try:
            ending = EndMode.DRAIN if asked.drained else EndMode.STOP
            self.taking = taking = savepoints.begin_last(asked.id, asked.into, asked.form, ending)
            while not taking.is_over():
                if time.monotonic() >= self._until:
                    taking.cut_off(self._why)
                look()
                time.sleep(_LOOK_SECONDS)
            self.savepoint = taking.result()
        except BaseException as error:
            self.error = error
            if not taking_was_called_off(error):
                self.is_all_that_failed = True
                raise

    def _refused(self, expected: str, found: str, next_step: str) -> TidegateError:
        return request_refused(expected, found, f"job {self._name}", next_step)


def taking_was_called_off(error: BaseException) -> bool:
    """True if a savepoint is missing because a faster end of its job was requested."""
    return isinstance(error, TidegateError) and error.catalogue_entry is Code.SAVEPOINT_CUT_OFF


def no_last_savepoint(name: str, why: str) -> TidegateError:
    """The error for a job that ends in a way that allows no savepoint of its end."""
    return not_at_its_end("every query ended, with every decided epoch done", why, f"job {name}")
