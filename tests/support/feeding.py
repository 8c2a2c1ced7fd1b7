"""Input that comes all the time while something else is under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event


@contextmanager
def repeated(act: Callable[[], object], *, times: int, every_seconds: float) -> Iterator[None]:
    """Inside of the block `act` is called in another thread, so many times at most. Its error is raised at the end."""
    stopped = Event()

    def feed() -> None:
        for _ in range(times):
            act()
            if stopped.wait(every_seconds):
                return

    with ThreadPoolExecutor() as pool:
        feeding = pool.submit(feed)
        try:
            yield
        finally:
            stopped.set()
        feeding.result()
