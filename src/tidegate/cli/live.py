"""The live view of `tidegate run` in a terminal. It reads the driver's beat, and needs no Spark.

While it is open, this process and its child processes write into a pipe, and a thread prints every line above the view:
two direct writers would mix their lines. Without a terminal there is no pipe.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import TracebackType

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from tidegate.cli.live_view import SupervisorStage, Watched, live_view
from tidegate.cli.view import Restarts, View

_LOOK_SECONDS = 0.25
_LAST_WORDS_SECONDS = 2.0
_BYTES_AT_ONCE = 65_536


class LiveView(View):
    """Shows the job in the last lines of a terminal. A thread reads its beat several times a second."""

    environment: Mapping[str, str] = {"PYTHONUNBUFFERED": "1"}
    """Unbuffered: Python would write into a pipe in blocks."""

    def __init__(self, terminal: int, redirected: tuple[int, ...], clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._terminal = terminal
        self._redirected = redirected
        self._clock = clock
        self._watched = Watched(stage=SupervisorStage.RUNNING, since=clock())
        file = open(terminal, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 (closed below)
        self._console = Console(file=file, force_terminal=True, highlight=False)
        self._live = Live(
            console=self._console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._ending = threading.Event()
        self._gone = threading.Event()
        self._saved: dict[int, int] = {}
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> LiveView:
        reading, writing = os.pipe()
        _flush()
        for number in self._redirected:
            self._saved[number] = os.dup(number)
            os.dup2(writing, number)
        os.close(writing)
        self._measure()
        self._show(self._live.start)
        for name, work in (("output", partial(self._pass_on, reading)), ("live", self._work)):
            self._threads.append(threading.Thread(target=work, name=f"tidegate-{name}", daemon=True))
            self._threads[-1].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Remove the view and keep the lines above it. Waits only briefly for other processes that still have the pipe,
        such as one that outlives its driver."""
        _flush()
        for number, saved in self._saved.items():
            os.dup2(saved, number)
            os.close(saved)
        output, live = self._threads
        output.join(_LAST_WORDS_SECONDS)
        self._ending.set()
        live.join()
        self._show(self._live.stop)

    def failed(self, why: str, restart_at: float, what: Restarts) -> None:
        since = self._clock() if what is Restarts.DRIVER else self._watched.since
        restarts = self._watched.restarts + 1
        self._watched = Watched(
            stage=SupervisorStage.RESTARTING, since=since, restarts=restarts, restart_at=restart_at, why=why
        )

    def stopping(self) -> None:
        self._answer()
        self._watched = replace(self._watched, stage=SupervisorStage.STOPPING)

    def _work(self) -> None:
        while not self._ending.wait(_LOOK_SECONDS) and not self._gone.is_set():
            if self._is_ours():
                self._measure()
                self._show(lambda: self._live.update(self._picture(), refresh=True))

    def _is_ours(self) -> bool:
        """False while the job is in the background: the terminal then belongs to the shell or another program."""
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            return False

    def _show(self, write: Callable[[], None]) -> None:
        """Draw until the end. An error here ends only the view, never the job."""
        if not self._gone.is_set():
            try:
                write()
            except Exception as error:  # noqa: BLE001 (shown in the terminal, if there is one)
                self._gone.set()
                self._write_plainly(f"{_CURSOR}\nthe live view has ended ({type(error).__name__}: {error})\n".encode())

    def _picture(self) -> RenderableType:
        try:
            return live_view(self._read(), self._watched, self._clock())
        except OSError as error:  # the storage is away: the driver reports the state of the job
            return Text(f"cannot read the status of the job: {error.strerror or error}", style="red")

    def _measure(self) -> None:
        with suppress(OSError):
            self._console.size = ConsoleDimensions(*os.get_terminal_size(self._terminal))

    def _pass_on(self, reading: int) -> None:
        """Print the lines from the pipe `reading` above the view, until all writers of the pipe have closed it. The
        pipe must be read all the time, because a writer blocks on a full pipe.
        """
        rest = b""
        with open(reading, "rb", buffering=0) as pipe:
            while read := pipe.read(_BYTES_AT_ONCE):
                whole, newline, rest = (rest + read).rpartition(b"\n")
                if not newline and len(rest) < _BYTES_AT_ONCE:
                    continue
                self._print(whole + newline if newline else rest + b"\n")
                rest = rest if newline else b""
            if rest:
                self._print(rest + b"\n")

    def _print(self, lines: bytes) -> None:
        text = _AsItIs(lines.decode("utf-8", "replace"))
        self._show(partial(self._console.print, text, soft_wrap=True, end=""))
        if self._gone.is_set():
            self._write_plainly(lines)

    def _write_plainly(self, data: bytes) -> None:
        """Write without a view. Errors of a closed terminal are ignored."""
        with suppress(OSError):
            while data:
                data = data[os.write(self._terminal, data) :]


class _AsItIs:
    """Text with its own colours, wrapped only by the terminal; cursor movements are removed."""

    def __init__(self, text: str) -> None:
        self._text = _MOVES.sub("", text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Segment(self._text)


_CURSOR = "\x1b[?25h"
"""Shows the cursor that the view has hidden."""
_MOVES = re.compile(r"\x1b\[[0-9;:?]*[ -/]*(?!m)[@-~]|\x1b[^\[]|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]")


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
