"""The live view of `tidegate run` in a terminal. It reads what the driver says of itself, and needs no Spark.

What the job prints stands above the view: its output then comes through this process, line by line. Where the standard
error is no terminal nothing is shown and nothing stands between the job and its output.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from tidegate.cli.live_view import Watched, live_view
from tidegate.jobs.beat import Beat

_LOOK_SECONDS = 0.25
_LAST_WORDS_SECONDS = 2.0
_LINE_AT_MOST = 65_536


@dataclass(frozen=True, slots=True)
class ChildStreams:
    """How a driver is to be started: arguments for Popen (None: it inherits ours), and variables for its process."""

    stdout: int | None = None
    stderr: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


class Quiet(AbstractContextManager["Quiet"]):
    """No view: the job writes where it would without us."""

    streams = ChildStreams()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None

    def watch(self, watched: Watched, read: Callable[[], Beat | None]) -> None:
        """Shows nothing."""

    def follow(self, driver: subprocess.Popen[bytes]) -> None:
        """The driver has our own streams."""

    def say(self, line: str) -> None:
        """A line for the user."""
        print(line, file=sys.stderr, flush=True)


class LiveView(AbstractContextManager["LiveView"]):
    """Shows the job in the last lines of the terminal; a thread looks at its beat several times a second."""

    def __init__(self, console: Console, streams: ChildStreams, clock: Callable[[], float] = time.time) -> None:
        self.streams = streams
        self._console = console
        self._clock = clock
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._watched: tuple[Watched, Callable[[], Beat | None]] | None = None
        self._followers: list[threading.Thread] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="tidegate-live", daemon=True)

    def __enter__(self) -> LiveView:
        self._live.start()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """The view goes, the lines above it stay. What a driver still had to say is waited for, but not for long: a
        JVM that outlives it has the same streams."""
        end = time.monotonic() + _LAST_WORDS_SECONDS
        for follower in self._followers:
            follower.join(max(0.0, end - time.monotonic()))
        self._ending.set()
        self._thread.join()
        self._live.stop()

    def watch(self, watched: Watched, read: Callable[[], Beat | None]) -> None:
        """From now on show this, and what `read` gives."""
        self._watched = (watched, read)

    def follow(self, driver: subprocess.Popen[bytes]) -> None:
        """Show what a driver prints above the view; it was started with `streams`."""
        self._followers = [each for each in self._followers if each.is_alive()]
        for stream in (driver.stdout, driver.stderr):
            if stream is not None:
                follower = threading.Thread(target=self._print_all, args=(stream,), name="tidegate-output", daemon=True)
                follower.start()
                self._followers.append(follower)

    def say(self, line: str) -> None:
        """A line for the user, above the view."""
        self._console.print(Text.from_ansi(line), soft_wrap=True)

    def _work(self) -> None:
        while not self._ending.wait(_LOOK_SECONDS):
            if self._watched is not None and _is_in_foreground():
                self._live.update(self._picture(*self._watched), refresh=True)

    def _picture(self, watched: Watched, read: Callable[[], Beat | None]) -> RenderableType:
        try:
            return live_view(read(), watched, self._clock())
        except OSError as error:  # the storage is away; what becomes of the job is its driver's word, not ours
            return Text(f"cannot read how the job is: {error.strerror or error}", style="red")

    def _print_all(self, stream: IO[bytes]) -> None:
        with stream:
            while line := stream.readline(_LINE_AT_MOST):
                self.say(line.decode("utf-8", "replace").rstrip("\r\n"))


def open_view(stream: TextIO | None = None) -> LiveView | Quiet:
    """A view where the standard error (or `stream`) is a terminal that can move its cursor."""
    target = sys.stderr if stream is None else stream
    if not target.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return Quiet()
    through_us = subprocess.PIPE
    streams = ChildStreams(
        stdout=through_us if sys.stdout.isatty() else None,
        stderr=through_us,
        environment={"PYTHONUNBUFFERED": "1"},  # to a pipe Python would write in blocks
    )
    return LiveView(Console(file=target, force_terminal=True, highlight=False), streams)


def _is_in_foreground() -> bool:
    """Whether the terminal is ours: a job that was sent to the background leaves it to the shell."""
    try:
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except OSError:
        return False
