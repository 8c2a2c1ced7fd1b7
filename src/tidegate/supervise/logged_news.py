"""The news of a supervised job as log lines, and its sentences that readers see, too."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from tidegate.core.errors import TidegateError
from tidegate.operate.failures import Failure
from tidegate.settings.kinds import WarmUp
from tidegate.storages.schemes import Folder
from tidegate.supervise.news import News

_LOG = logging.getLogger("tidegate")


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
        self._log(logging.WARNING, "ProcessesStay", staying(processes), processes=list(processes))

    def history_failed(self, error: TidegateError) -> None:
        self._log(logging.ERROR, "HistoryFailed", str(error))

    def warmed_up(self, archive: Path, size: int, seconds: float) -> None:
        self._log(logging.INFO, "WarmedUp", warmed_up(archive, size, seconds), archive=str(archive), bytes=size)

    def warm_up_failed(self, why: str) -> None:
        self._log(logging.WARNING, "WarmUpFailed", warm_up_failed(why))

    def standby_ready(self, process: int, memory: int) -> None:
        self._log(logging.INFO, "StandbyReady", standby_ready(process, memory), process=process, bytes=memory)

    def standby_takes_over(self, process: int) -> None:
        self._log(logging.INFO, "StandbyTakesOver", standby_takes_over(process), process=process)

    def standby_lost(self, why: str) -> None:
        self._log(logging.WARNING, "StandbyLost", why)

    def _log_failure(self, event: str, failure: Failure) -> None:
        about = {"query": failure.query, "epoch": failure.epoch, "run": failure.run}
        known = {"code": failure.code, "restart_in_seconds": failure.restart_in_seconds}
        extra = {"job": self._job, **about, "event": event, "fields": known}
        _LOG.error("%s", failure.what, extra=extra)

    def _log(self, level: int, event: str, text: str, **fields: object) -> None:
        _LOG.log(level, "%s", text, extra={"job": self._job, "event": event, "fields": fields})


def staying(processes: Sequence[int]) -> str:
    numbers = ", ".join(str(process) for process in processes)
    return (
        f"SIGKILL has not ended processes of the old driver: {numbers}. They wait for a disk or a file server that does"
        " not answer (state D in ps), or belong to another user. The job's locks prevent a second driver from"
        " writing"
    )


def warmed_up(archive: Path, size: int, seconds: float) -> str:
    return (
        f"made an archive of Spark's classes in {seconds:.0f} s: {archive}, {size / 1e6:.0f} MB. The next starts are"
        " faster; warm_up = off prevents this"
    )


def warm_up_failed(why: str) -> str:
    return f"no archive of Spark's classes was made, so starts stay as slow as they are: {why}"


def standby_ready(process: int, memory: int) -> str:
    return f"a standby is ready: process {process}, {memory / 1e6:.0f} MB of memory in all its processes"


def standby_takes_over(process: int) -> str:
    return f"the standby takes over: process {process}"
