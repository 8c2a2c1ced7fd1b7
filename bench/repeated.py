"""Something that is done again and again beside a measurement."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def repeated(call: Callable[[], object], pause_seconds: float) -> Generator[None]:
    """Call this in a thread of its own for the time of a `with`: at once, and again after each pause.

    If a call fails, there are no more calls, and the end of the `with` raises the error.
    """
    over = threading.Event()

    def repeat() -> None:
        call()
        while not over.wait(pause_seconds):
            call()

    with ThreadPoolExecutor(max_workers=1) as pool:
        repeating = pool.submit(repeat)
        try:
            yield
        finally:
            over.set()
        repeating.result()
