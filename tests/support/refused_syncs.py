"""Has the kernel refuse the syncs of one descriptor in this process, also those of a library. Linux only."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

_FSYNC = {"x86_64": 74, "aarch64": 82}
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _FIRST_ARGUMENT = 0, 16
"""Where the data that the filter sees has the number of the call, and what it is called with."""


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]


def refuse_syncs_of(descriptor: int, number: int = errno.EIO) -> None:
    """From now on `fsync` and `fdatasync` of `descriptor` fail in this thread. Nothing takes that back."""
    fsync = _FSYNC[platform.machine()]
    steps = b"".join(
        struct.pack("HBBI", *step)
        for step in (
            (_LOAD, 0, 0, _NUMBER),
            (_IF_EQUAL, 1, 0, fsync),
            (_IF_EQUAL, 0, 3, fsync + 1),  # fdatasync
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_IF_EQUAL, 0, 1, descriptor),
            (_RETURN, 0, 0, _ERRNO | number),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
    buffer = ctypes.create_string_buffer(steps)
    program = _Program(len(steps) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0)):
        if libc.prctl(*call):
            raise OSError(ctypes.get_errno(), "prctl")
