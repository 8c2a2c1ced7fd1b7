"""Starts the next driver before the pause of the restart strategy is over: its Python imports Spark and tidegate, and
its JVM starts. It runs nothing of the program until the supervisor says so.

Such a process holds nothing of the job, so it may die at any time, and is ended by SIGKILL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from tidegate.storages.schemes import Folder
from tidegate.supervise.line import TakeOver
from tidegate.supervise.standby import StandbyDriver

HEAD_START = "TIDEGATE_HEAD_START"
"""The environment variable that makes a new driver start its JVM and then wait before it runs its program. Its value is
the job's folder. The process removes it, for its own children."""

LONGEST_SECONDS = 5.0
"""In a longer pause the process is started so long before its end: its memory is free until then."""

DriverT = TypeVar("DriverT", bound=StandbyDriver)


class HeadStart(Generic[DriverT]):
    """The next driver of one supervisor. `start`: starts a driver with these variables in its environment."""

    def __init__(self, start: Callable[[Mapping[str, str]], DriverT]) -> None:
        self._start = start
        self._variables: Mapping[str, str] = {}
        self._driver: DriverT | None = None

    def declared(self, folder: Folder, *, own_jvm: bool) -> None:
        """The program has declared its job. `own_jvm`: tidegate has started its JVM, so that the next one will be the
        same: from now on a driver may have a head start. Otherwise only the program knows what its session needs."""
        self._variables = {HEAD_START: str(folder)} if own_jvm else {}

    def look(self, seconds_left: float) -> None:
        """Start the process if the pause ends soon; end it if it does not."""
        if seconds_left > LONGEST_SECONDS:
            self.end()
        elif self._driver is None and self._variables:
            self._driver = self._start(self._variables)

    def take(self) -> DriverT:
        """The driver that runs its program now: the process with the head start, or a new one."""
        driver, self._driver = self._driver, None
        if driver is not None and driver.has_ended():
            driver.close(0.0)
            return self._start({})
        if driver is None:
            driver = self._start(self._variables)
        if self._variables:
            driver.tell(TakeOver())
        return driver

    def end(self) -> None:
        """No driver follows now."""
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.kill()
            driver.close(0.0)
