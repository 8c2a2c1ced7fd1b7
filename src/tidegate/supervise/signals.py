"""Receives the signals of a supervisor as events, so that it can wait for them beside other events."""

from __future__ import annotations

import signal
import socket
from types import FrameType, TracebackType


class Signals:
    """While open, SIGINT, SIGTERM, SIGHUP and SIGCHLD interrupt nothing: the caller waits for them or reads them.

    A SIGHUP that this process was started to ignore (nohup) stays ignored.
    """

    def __init__(self) -> None:
        self._ours, self._pythons = socket.socketpair()
        for end in (self._ours, self._pythons):
            end.setblocking(False)

    def __enter__(self) -> Signals:
        obeyed = [each for each in _OBEYED if signal.getsignal(each) is not signal.SIG_IGN or each is signal.SIGINT]
        self._before = {each: signal.signal(each, _nothing) for each in obeyed}
        self._wakeup_before = signal.set_wakeup_fd(self._pythons.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self._ours.close()
        self._pythons.close()

    def fileno(self) -> int:
        return self._ours.fileno()

    def arrived(self) -> list[signal.Signals]:
        """The signals since the last call, in order, without waiting. SIGCHLD is left out: it only ends a wait."""
        try:
            numbers = self._ours.recv(4096)
        except BlockingIOError:
            return []
        return [signal.Signals(each) for each in numbers if each in _OBEYED and each != signal.SIGCHLD]


_OBEYED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Python writes the number to the wakeup descriptor only for signals that have a handler."""
