"""Handles Ctrl-C and SIGTERM for jobs in the program's own process: the first signal stops a job cleanly.

Ctrl-C stops only a job that the main thread waits for. In a notebook, it otherwise interrupts another cell. SIGTERM
stops every job in the process, and then the process ends.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol


class StoppedByInterrupt(KeyboardInterrupt):
    """Ctrl-C during the start of a job, which has ended cleanly since."""


@contextmanager
def interrupts_ask(ask: Callable[[], None]) -> Generator[list[int], None, None]:
    """The first Ctrl-C calls `ask` and interrupts nothing; the second is raised. Yields the received signals.

    The program's own handlers, ignored signals, and all threads except the main one stay unchanged.
    """
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    raises = before is signal.default_int_handler or _cancels(before)
    if threading.current_thread() is not threading.main_thread() or not raises:
        yield came
        return

    def ask_once(number: int, _: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        came.append(number)
        ask()

    signal.signal(signal.SIGINT, ask_once)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_cancel_nothing() -> Generator[None, None, None]:
    """Ctrl-C only raises KeyboardInterrupt. Pyspark's own handler would cancel all Spark jobs, the current epoch
    included. After this block that holds while a job of tidegate runs in the process.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not _cancels(before):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        runs_on = any(not each.await_end(0) for each in _running)
        signal.signal(
            signal.SIGINT, _Interrupt(before) if runs_on and _is_of_pyspark(before) and callable(before) else before
        )


class InterruptibleJob(Protocol):
    """The interface of a job in this process for its signals."""

    def ask_to_stop(self) -> None: ...

    def await_end(self, timeout_seconds: float | None = None) -> bool:
        """True if it has ended by then, in any way."""
        ...


def obey_signals(job: InterruptibleJob) -> None:
    """Until the job has ended, Ctrl-C cancels no work of Spark, and SIGTERM stops the job before it ends the process.

    The program's own handlers and ignored signals stay unchanged.
    """
    _running[:] = [*(each for each in _running if not each.await_end(0)), job]
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


@contextmanager
def main_thread_waits() -> Generator[None, None, None]:
    """During this block, SIGTERM only requests the end of the jobs. A call that waits for a job returns when the job
    has ended.
    """
    global _waits
    mine = int(threading.current_thread() is threading.main_thread())
    _waits += mine
    try:
        yield
    finally:
        _waits -= mine


_running: list[InterruptibleJob] = []
_waits = 0
"""How many blocks of `main_thread_waits` the main thread is in."""
_SEND_AGAIN_SECONDS = 0.2


class _Interrupt:
    """Pyspark's handler cancels all work in Spark. It is not called while a job of tidegate is in the process."""

    def __init__(self, before: Callable[[int, FrameType | None], object]) -> None:
        self._before = before

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if all(each.await_end(0) for each in _running):
            self._before(number, frame)
        else:
            raise KeyboardInterrupt


def _terminate(number: int, _: FrameType | None) -> None:
    """A thread waits for the jobs, and sends the signal again. Not this thread: it may hold a lock (of a log, of a
    module import) that a job needs to end.
    """
    jobs = [each for each in _running if not each.await_end(0)]
    for each in jobs:
        each.ask_to_stop()
    if not jobs:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    elif not _waits:
        threading.Thread(target=_send_again, args=(number, jobs), name="tidegate-sigterm", daemon=True).start()


def _send_again(number: int, jobs: Sequence[InterruptibleJob]) -> None:
    """More than once: a signal that comes directly before the main thread sleeps does not wake it, and Python calls the
    handler behind the sleep.
    """
    for each in jobs:
        each.await_end()
    while signal.getsignal(number) is _terminate:
        os.kill(os.getpid(), number)
        time.sleep(_SEND_AGAIN_SECONDS)


def _cancels(handler: object) -> bool:
    return _is_of_pyspark(handler) or isinstance(handler, _Interrupt)


def _is_of_pyspark(handler: object) -> bool:
    return str(getattr(handler, "__module__", "")).startswith("pyspark.")
