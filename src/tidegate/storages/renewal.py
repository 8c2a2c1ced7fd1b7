"""Renews a held lease, from a thread that does nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tidegate.core.errors import TidegateError
from tidegate.storages.lease import HeldLease

_TRIES_IN_A_RENEWAL = 4


@contextmanager
def renewing(held: HeldLease) -> Generator[None]:
    """Inside the block a thread renews the lease, if it needs that, until it is lost. It may be lost inside the block:
    `held.lost_here()` says so.

    The lease is still held after the block: the caller releases it.
    """
    every = held.renewal_seconds
    if every is None:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(
        target=renew_until, args=(held, every, ended.wait), name="tidegate-lease-renewal", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ended.set()  # without a wait for the thread: it may hang in the storage, and only renews


def renew_until(held: HeldLease, every_seconds: float, ended: Callable[[float], bool]) -> None:
    """Renew until the lease is lost, or `ended`, which waits for so many seconds, returns True. A renewal that fails is
    tried again sooner.
    """
    pause = every_seconds
    while not ended(pause):
        try:
            held.renew()
            pause = every_seconds
        except TidegateError:
            if held.lost_here() is not None:
                return
            pause = every_seconds / _TRIES_IN_A_RENEWAL
