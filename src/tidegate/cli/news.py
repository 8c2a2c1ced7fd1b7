"""The news of a supervised job on the standard error: sentences for readers, log lines for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tidegate.cli.view import Restarts, View
from tidegate.core.errors import TidegateError
from tidegate.logs.lines import LogFormat
from tidegate.logs.writing import LogChoice, set_up
from tidegate.operate import Failure, Folder
from tidegate.settings.kinds import WarmUp
from tidegate.supervise.logged_news import (
    Logged,
    standby_ready,
    standby_takes_over,
    staying,
    warm_up_failed,
    warmed_up,
)
from tidegate.supervise.news import News, PassedOn


def news_in(choice: LogChoice) -> News:
    """The news in the format of the log."""
    if choice.format is LogFormat.TEXT:
        return Shown()
    set_up(choice, os.environ)
    return Logged()


class Shown(News):
    """Prints for readers. A closed terminal is no reason to end a job."""

    def declared(self, job: str, folder: Folder, warm_up: WarmUp) -> None:
        _say(f"job {job}: starting, checkpoints in {folder}")

    def running(self) -> None:
        _say("running")

    def failed(self, failure: Failure) -> None:
        _show_failure(failure, "the driver")

    def query_failed(self, failure: Failure) -> None:
        _show_failure(failure, f"query {failure.query}")

    def stays(self, processes: Sequence[int]) -> None:
        _say(staying(processes))

    def history_failed(self, error: TidegateError) -> None:
        _say(str(error))

    def warmed_up(self, archive: Path, size: int, seconds: float) -> None:
        _say(warmed_up(archive, size, seconds))

    def warm_up_failed(self, why: str) -> None:
        _say(warm_up_failed(why))

    def standby_ready(self, process: int, memory: int) -> None:
        _say(standby_ready(process, memory))

    def standby_takes_over(self, process: int) -> None:
        _say(standby_takes_over(process))

    def standby_lost(self, why: str) -> None:
        _say(why)


class Watching(PassedOn):
    """Passes the news on to another printer and to the view."""

    def __init__(self, told: News, view: View) -> None:
        super().__init__(told)
        self._view = view

    def declared(self, job: str, folder: Folder, warm_up: WarmUp) -> None:
        self._view.declared(folder)
        super().declared(job, folder, warm_up)

    def stopping(self) -> None:
        self._view.stopping()
        super().stopping()

    def failed(self, failure: Failure) -> None:
        self._tell_view(failure, Restarts.DRIVER)
        super().failed(failure)

    def query_failed(self, failure: Failure) -> None:
        self._tell_view(failure, Restarts.QUERY)
        super().query_failed(failure)

    def _tell_view(self, failure: Failure, what: Restarts) -> None:
        if failure.restart_in_seconds is not None:
            self._view.failed(failure.code, failure.at + failure.restart_in_seconds, what)


def _show_failure(failure: Failure, what: str) -> None:
    _say(failure.what)
    if failure.restart_in_seconds is not None:
        _say(f"restart of {what} in {failure.restart_in_seconds:.1f} s")


def _say(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
