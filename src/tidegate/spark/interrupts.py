"""What Ctrl-C does to a job in the program's own process: the first one stops it cleanly."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType


class StoppedByInterrupt(KeyboardInterrupt):
    """Ctrl-C while a job was starting; it has ended cleanly since."""


@contextmanager
def interrupts_ask(ask: Callable[[], None]) -> Generator[list[int], None, None]:
    """The first Ctrl-C calls `ask` and interrupts nothing, the second is raised. Gives the signals that came.

    A handler of the program's own, a signal that is ignored, and every thread but the main one stay as they are.
    """
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    raises = before is signal.default_int_handler or _is_of_pyspark(before)
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
    """Ctrl-C only raises KeyboardInterrupt: pyspark's own handler cancels all jobs, the epoch under way with them."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not _is_of_pyspark(before):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _is_of_pyspark(handler: object) -> bool:
    return str(getattr(handler, "__module__", "")).startswith("pyspark.")
