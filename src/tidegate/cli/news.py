"""The news of a supervised job on the standard error: sentences for readers, log lines for programs."""

from __future__ import annotations

import logging
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
        _say(_staying(processes))

    def history_failed(self, error: TidegateError) -> None:
        _say(str(error))

    def warmed_up(self, archive: Path, size: int, seconds: float) -> None:
        _say(_warmed_up(archive, size, seconds))

    def warm_up_failed(self, why: str) -> None:
        _say(_warm_up_failed(why))

    def standby_ready(self, process: int, memory: int) -> None:
        _say(_standby_ready(process, memory))

    def standby_takes_over(self, process: int) -> None:
        _say(_standby_takes_over(process))

    def standby_lost(self, why: str) -> None:
        _say(why)


class Logged(News):
    """Prints for programs: each event is one log line."""

    def __init__(self) -> None:
        self._job: str | None = None

    def declared(self, job: str, folder: Folder, warm_up: WarmUp) -> None:
        self._job = job
        self._log(logging.INFO, "JobDeclared", f"job {job}: starting, checkpoints in {folder}", folder=str(folder))

    def running(self) -> None:
        self._log(logging.INFO, "JobRunning", "running")

    def stopping(self) -> None:
        self._log(logging.INFO, "JobStopping", "stopping")

    def failed(self, failure: Failure) -> None:
        self._log_failure("DriverFailed", failure)

    def query_failed(self, failure: Failure) -> None:
        self._log_failure("QueryFailed", failure)

    def stays(self, processes: Sequence[int]) -> None:
        self._log(logging.WARNING, "ProcessesStay", _staying(processes), processes=list(processes))

    def history_failed(self, error: TidegateError) -> None:
        self._log(logging.ERROR, "HistoryFailed", str(error))

    def warmed_up(self, archive: Path, size: int, seconds: float) -> None:
        self._log(logging.INFO, "WarmedUp", _warmed_up(archive, size, seconds), archive=str(archive), bytes=size)

    def warm_up_failed(self, why: str) -> None:
        self._log(logging.WARNING, "WarmUpFailed", _warm_up_failed(why))

    def standby_ready(self, process: int, memory: int) -> None:
        self._log(logging.INFO, "StandbyReady", _standby_ready(process, memory), process=process, bytes=memory)

    def standby_takes_over(self, process: int) -> None:
        self._log(logging.INFO, "StandbyTakesOver", _standby_takes_over(process), process=process)

    def standby_lost(self, why: str) -> None:
        self._log(logging.WARNING, "StandbyLost", why)

    def _log_failure(self, event: str, failure: Failure) -> None:
        about = {"query": failure.query, "epoch": failure.epoch, "run": failure.run}
        known = {"code": failure.code, "restart_in_seconds": failure.restart_in_seconds}
        extra = {"job": self._job, **about, "event": event, "fields": known}
        _LOG.error("%s", failure.what, extra=extra)

    def _log(self, level: int, event: str, text: str, **fields: object) -> None:
        _LOG.log(level, "%s", text, extra={"job": self._job, "event": event, "fields": fields})


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


_LOG = logging.getLogger("tidegate")


def _show_failure(failure: Failure, what: str) -> None:
    _say(failure.what)
    if failure.restart_in_seconds is not None:
        _say(f"restart of {what} in {failure.restart_in_seconds:.1f} s")


def _staying(processes: Sequence[int]) -> str:
    numbers = ", ".join(str(process) for process in processes)
    return (
        f"SIGKILL has not ended processes of the old driver: {numbers}. They wait for a disk or a file server that does"
        " not answer (state D in ps), or belong to another user. The job's locks prevent a second driver from"
        " writing"
    )


def _warmed_up(archive: Path, size: int, seconds: float) -> str:
    return (
        f"made an archive of Spark's classes in {seconds:.0f} s: {archive}, {size / 1e6:.0f} MB. The next starts are"
        " faster; warm_up = off prevents this"
    )


def _warm_up_failed(why: str) -> str:
    return f"no archive of Spark's classes was made, so starts stay as slow as they are: {why}"


def _standby_ready(process: int, memory: int) -> str:
    return f"a standby is ready: process {process}, {memory / 1e6:.0f} MB of memory in all its processes"


def _standby_takes_over(process: int) -> str:
    return f"the standby takes over: process {process}"


def _say(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
