"""Rights to files, also for tests that run as root. Linux only."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION_3 = 0x20080522
_READ_AND_WRITE_EVERYTHING = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH (capabilities(7))."""


@contextmanager
def modes_count() -> Iterator[None]:
    """For this thread the modes of files and folders count, as they do for whoever is not root."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    before = (ctypes.c_uint32 * 6)()  # twice: effective, permitted, inheritable
    _check(libc.capget(header, before))
    without = (ctypes.c_uint32 * 6)(*before)
    without[0] &= ~_READ_AND_WRITE_EVERYTHING
    _check(libc.capset(header, without))
    try:
        yield
    finally:
        _check(libc.capset(header, before))


def _check(returned: int) -> None:
    if returned:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
