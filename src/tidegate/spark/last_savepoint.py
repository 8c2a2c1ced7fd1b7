"""The savepoint that a job's end waits for: asked for with a stop or a cancel, taken when every query has ended.

So it is of the very epochs that the job ends with, and nothing that it has shown comes again behind it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.savepoints.folder import Savepoint
from tidegate.spark.savepointing import SavepointTaker, Taking

_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class _LastSavepointOrder:
    id: str
    into: str | None
    form: SavepointFormat
    drained: bool


class LastSavepoint:
    """One, of one job. Any thread asks; the one that watches the job takes it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._asked: _LastSavepointOrder | None = None
        self._passed = False
        """Whether the time for asking has gone by."""
        self._until = math.inf
        self._why = ""
        self.taking: Taking | None = None
        """How far it is, once it is begun."""
        self.savepoint: Savepoint | None = None
        self.error: BaseException | None = None
        """Why it is not there although it was asked for."""
        self.is_all_that_failed = False
        """Whether the job has ended as it was asked to, but for its savepoint."""

    def ask(
        self,
        savepoints: SavepointTaker,
        savepoint_id: str,
        into: str | None,
        form: SavepointFormat = SavepointFormat.NATIVE,
        *,
        drained: bool = False,
    ) -> None:
        """The job ends with this one, `drained` or not. Raises REQUEST_REFUSED where that cannot be; nothing has been
        stopped then."""
        savepoints.check(savepoint_id, into, form)
        with self._lock:
            if self._passed:
                raise self._refused("a job that runs", "it is ending already", "ask again when it has ended")
            standing, asked = self._asked, _LastSavepointOrder(savepoint_id, into, form, drained)
            if standing is not None and standing != asked:
                raise self._refused("one savepoint of its end", f"{standing.id}, asked for before", "wait for it")
            self._asked = asked

    @property
    def is_of_a_drain(self) -> bool:
        """Whether the job was asked to end for good with it."""
        return self._asked is not None and self._asked.drained

    def limit(self, why: str, seconds: float) -> None:
        """Somebody wants the end of the job sooner: it is called off when it is not there by then."""
        with self._lock:
            until = time.monotonic() + seconds
            if until < self._until:
                self._until, self._why = until, why

    def pass_by(self, error: BaseException | None) -> bool:
        """Every query has ended: nobody asks any more. Whether it is to be taken now, which `error` stands against."""
        with self._lock:
            self._passed = True
            if self._asked is not None:
                self.error = error
            return self._asked is not None and error is None

    def take(self, savepoints: SavepointTaker, look: Callable[[], None]) -> None:
        """Take it, and wait for it; `look` is called meanwhile. Raises what stands against it, unless somebody wanted
        the end sooner: that has gone as it was asked for."""
        asked = self._asked
        if asked is None:
            return
        try:
            self.taking = taking = savepoints.begin_last(asked.id, asked.into, asked.form, drained=asked.drained)
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
        return TidegateError(
            Code.REQUEST_REFUSED, expected=expected, found=found, where=f"job {self._name}", next_step=next_step
        )


def taking_was_called_off(error: BaseException) -> bool:
    """Whether a savepoint is not there because somebody wanted the end of its job sooner."""
    return isinstance(error, TidegateError) and error.catalogue_entry is Code.SAVEPOINT_CUT_OFF


def no_last_savepoint(name: str, why: str) -> TidegateError:
    """The job ends, and not so that a savepoint of its end can be taken."""
    return TidegateError(
        Code.SAVEPOINT_REFUSED,
        expected="every query ended, with every decided epoch done",
        found=why,
        where=f"job {name}",
        next_step="start the job, which finishes the decided epochs; then repeat the request with the same id",
    )
