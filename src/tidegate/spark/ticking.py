"""A companion with a thread of its own, so that it delays neither an epoch nor the end of the job."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.core.errors import TidegateError
from tidegate.spark.companions import Companion

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob

_LOG = logging.getLogger("tidegate")
_LOOK_SECONDS = 0.2


class Ticking(Companion):
    """Calls a function regularly, from before recovery to the end of the job, and a last time after it.

    It must not end the job: its error is logged, once until it works again. A driver that has lost its lease does
    nothing here any more: its notes would take the place of those of its successor.
    """

    def __init__(self, name: str, every_seconds: float) -> None:
        self._name = name
        self._every_seconds = every_seconds
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._complained = False
        self._lost_lease: Callable[[], TidegateError | None] = lambda: None

    def opening(self, handle: LiveJob) -> None:
        self._lost_lease = handle.lost_lease
        self.begin(handle)
        self._thread = threading.Thread(target=self._go_on, name=f"tidegate-{self._name}", daemon=True)
        self._thread.start()

    def ended(self, error: BaseException | None) -> None:
        self._over.set()
        while self._thread is not None and self._thread.is_alive() and self._lost_lease() is None:
            self._thread.join(_LOOK_SECONDS)
        if self._lost_lease() is None:
            self._attempt_last(error)

    @abstractmethod
    def begin(self, handle: LiveJob) -> None:
        """Called once before recovery; an error prevents the start."""

    @abstractmethod
    def tick(self) -> None:
        """Do the regular work. Called again and again in the thread."""

    @abstractmethod
    def last(self, error: BaseException | None) -> None:
        """Do the work of the end. Called once after the job and the thread have ended; `error` is the error of the job,
        or None.
        """

    def _go_on(self) -> None:
        while not self._over.wait(self._every_seconds) and self._lost_lease() is None:
            try:
                self.tick()
            except Exception as error:  # noqa: BLE001 (told; a thread that died would leave every request unanswered)
                if self._lost_lease() is None:
                    self._complain(error)
            else:
                self._complained = False

    def _attempt_last(self, error: BaseException | None) -> None:
        try:
            self.last(error)
        except (OSError, TidegateError) as failed:
            self._complain(failed)

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            _LOG.warning("the job continues, but its %s does not work: %s", self._name, error)
        self._complained = True
