"""Runs calls of `hdfs-native` in one thread of asyncio, so that a call can be given up.

**The end of the process.** A thread of `hdfs-native` that has an answer calls into Python to say so. When the
interpreter ends at that moment, the thread is ended inside of Rust code, and the process aborts (about one in a
hundred short programs). So at the exit all calls are cancelled, and the exit waits until no such thread is in Python.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


def call(act: Callable[[], Coroutine[Any, Any, ResultT]], seconds: float) -> ResultT:
    """The result of a coroutine. Raises asyncio.TimeoutError when it has been given up. Ends a daemon thread whose call
    is canceled because the process ends.
    """
    try:
        return asyncio.run_coroutine_threadsafe(_within(act, seconds), _loop()).result()
    except CancelledError:
        raise SystemExit from None


async def _within(act: Callable[[], Coroutine[Any, Any, ResultT]], seconds: float) -> ResultT:
    return await asyncio.wait_for(act(), seconds)


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that knows which foreign threads are about to wake it."""

    def __init__(self) -> None:
        self._inside: dict[int, None] = {}
        super().__init__()

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        thread = threading.get_ident()
        self._inside[thread] = None
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        del self._inside[thread]  # the last step: from here on the thread does not wait for the interpreter
        return handle

    def come_to_rest(self) -> None:
        """Cancel all calls. Return when no thread wakes the loop any more, or after a second."""
        with suppress(asyncio.TimeoutError, CancelledError, RuntimeError):
            asyncio.run_coroutine_threadsafe(_cancel_all(), self).result(_REST_SECONDS)
        end = time.monotonic() + _REST_SECONDS
        time.sleep(_QUIET_SECONDS)
        while self._inside and time.monotonic() < end:
            time.sleep(_QUIET_SECONDS)


async def _cancel_all() -> None:
    calls = asyncio.all_tasks() - {asyncio.current_task()}
    for each in calls:
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


_REST_SECONDS = 1.0
_QUIET_SECONDS = 0.01

_lock = threading.Lock()
_loops: dict[int, _Loop] = {}
"""By process: a forked process has no thread of its parent's."""


def _loop() -> _Loop:
    pid = os.getpid()
    with _lock:
        if pid not in _loops:
            _loops[pid] = _Loop()
            threading.Thread(target=_loops[pid].run_forever, name="hdfs", daemon=True).start()
            if len(_loops) == 1:
                atexit.register(_rest)
        return _loops[pid]


def _rest() -> None:
    loop = _loops.get(os.getpid())
    if loop is not None:
        loop.come_to_rest()
