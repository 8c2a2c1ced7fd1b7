"""A supervisor in the background: forked off, in a session of its own, its output in a log file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path

import msgspec

from tidegate import operate
from tidegate.cli.exits import Exit
from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import parsed
from tidegate.disk.durable import outlasting_removals, storage_error
from tidegate.operate import Failure
from tidegate.settings.kinds import WarmUp
from tidegate.supervise.news import News, PassedOn


class LogHome(Enum):
    """Where the log of a background job stands once the job is known."""

    AS_GIVEN = "under the name that the user gave"
    JOB = "in the folder of the job, if both are on the same file system"


class Detached(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a job in the background once it runs, has failed for the first time, or has ended.

    `exit`: the exit code, if it has ended. `text`: its error, or the end of its log.
    """

    job: str | None
    process: int
    log: str
    exit: int | None = None
    text: str = ""


def detach(supervise: Callable[[News], int], shown: News, log: Path, home: LogHome) -> Detached:
    """Fork, and run `supervise` in the child. `shown`: the shown lines, which the log gets too.

    Raises STORAGE_UNUSABLE or STORAGE_FULL, and starts nothing, if the log cannot be opened.
    """
    descriptor = _opened(log)
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        _be_background(descriptor)
        os._exit(_supervise(supervise, shown, HandedNews(shown, writing, log, home)))
    os.close(writing)
    os.close(descriptor)
    return _first_news(process, reading, log)


class HandedNews(PassedOn):
    """Passes the supervisor's messages on, and sends the first important one to the command that waits in the
    foreground.
    """

    def __init__(self, shown: News, told: int, log: Path, home: LogHome) -> None:
        super().__init__(shown)
        self._waiting: int | None = told
        self._log = log
        self._home = home
        self._job: str | None = None
        self._why = ""

    def declared(self, job: str, folder: operate.Folder, warm_up: WarmUp) -> None:
        self._job = job
        if self._home is LogHome.JOB:
            self._log = _moved(self._log, operate.folder_here(folder) / "logs")
        super().declared(job, folder, warm_up)

    def running(self) -> None:
        super().running()
        self._tell("")

    def failed(self, failure: Failure) -> None:
        super().failed(failure)
        self._why = failure.what
        if failure.restart_in_seconds is not None:
            self._tell(f"{failure.what}\nrestart in {failure.restart_in_seconds:.1f} s")

    def ended(self, code: int) -> None:
        """The supervisor is about to end. A refusal is complete as it is; other errors are explained by the log."""
        self._tell(self._why if code in _REFUSALS else "", code)

    def _tell(self, text: str, code: int | None = None) -> None:
        if self._waiting is None:
            return
        known = Detached(job=self._job, process=os.getpid(), log=str(self._log), exit=code, text=text)
        with suppress(OSError):  # the waiting process is gone: the job continues
            os.write(self._waiting, msgspec.json.encode(known))
        os.close(self._waiting)
        self._waiting = None


_REFUSALS = frozenset({Exit.USAGE, Exit.REFUSED})


def _supervise(supervise: Callable[[News], int], shown: News, told: HandedNews) -> int:
    try:
        code = supervise(told)
    except TidegateError as error:
        print(error, file=sys.stderr, flush=True)
        code = 1
    told.ended(code)
    return code


def _opened(log: Path) -> int:
    """Open the log before anything is started, so that all errors have a place."""

    def opened() -> int:
        log.parent.mkdir(parents=True, exist_ok=True)
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    try:
        return outlasting_removals(opened)
    except OSError as error:
        raise storage_error(error, log, "open the log") from error


def _be_background(descriptor: int) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


def _first_news(process: int, reading: int, log: Path) -> Detached:
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    if not said:
        return Detached(job=None, process=process, log=str(log), exit=Exit.FAILED, text=_without_a_word(process, log))
    known = parsed(said, Detached)
    if known.exit is None or known.text:
        return known
    return msgspec.structs.replace(known, text=_read(Path(known.log)))


def _without_a_word(process: int, log: Path) -> str:
    ended = f"the supervisor (process {process}) has ended without a message: it was killed, or has crashed"
    return "\n".join(filter(None, [_read(log), ended]))


def _read(log: Path) -> str:
    """The end of a log, for the waiting command; empty if the log has moved, perhaps into the job's folder."""
    try:
        return log.read_text(errors="replace")[-4_000:].rstrip()
    except OSError:
        return ""


def _moved(log: Path, folder: Path) -> Path:
    """Move the open log into the job's folder. Returns the old path if that is another file system."""
    target = folder / log.name.removeprefix(".")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        log.rename(target)
    except OSError:
        return log
    return target
