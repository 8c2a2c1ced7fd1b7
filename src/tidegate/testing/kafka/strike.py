"""A rule of a `Proxy`: which requests it acts on, what it does to them, and the requests and answers that it saw."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto

_SECONDS = 60.0


class StrikeKind(Enum):
    """What a rule does to a request."""

    HOLD = auto()
    HOLD_AND_CUT = auto()
    DROP = auto()
    DROP_ANSWER = auto()
    REPEAT = auto()


class RequestStrike:
    """A rule, made by the methods of `Proxy`. Its methods may be called from any thread."""

    def __init__(
        self,
        kind: StrikeKind,
        key: int,
        loop: asyncio.AbstractEventLoop,
        seconds: float | None,
        first: int,
        count: int,
        where: Callable[[bytes], bool] | None,
    ) -> None:
        self.kind = kind
        self._key = key
        self._loop = loop
        self._seconds = seconds
        self._numbers = range(first, first + count)
        self._where = where
        self._seen = 0
        self._requests: list[bytes] = []
        self._answers: list[bytes] = []
        self._changed = threading.Condition()
        self._released = asyncio.Event()

    @property
    def holds(self) -> bool:
        return self.kind in (StrikeKind.HOLD, StrikeKind.HOLD_AND_CUT)

    # --- for tests -----------------------------------------------------------------------------------------

    @property
    def requests(self) -> list[bytes]:
        """The struck requests, without their length field."""
        with self._changed:
            return list(self._requests)

    @property
    def answers(self) -> list[bytes]:
        """The broker's answers to these requests, whether or not the client received them.

        A repeated request has two.
        """
        with self._changed:
            return list(self._answers)

    def wait(self, struck: int = 1, seconds: float = _SECONDS) -> None:
        """Wait until the rule has acted on `struck` requests. Raises TimeoutError after `seconds`."""
        self._wait_for(lambda: len(self._requests) >= struck, seconds)

    def wait_for_answers(self, seconds: float = _SECONDS) -> list[bytes]:
        """Wait until the broker has answered every request that the rule did not drop. Returns the answers.

        Raises TimeoutError after `seconds`.
        """
        each = {StrikeKind.DROP: 0, StrikeKind.REPEAT: 2}.get(self.kind, 1)
        self._wait_for(lambda: len(self._answers) >= each * len(self._requests), seconds)
        return self.answers

    def release(self) -> None:
        """Deliver the held requests, and hold no more."""
        with self._changed:
            self._numbers = range(0)
        with suppress(RuntimeError):  # the proxy has ended: nothing is kept back
            self._loop.call_soon_threadsafe(self._released.set)

    def _wait_for(self, holds: Callable[[], bool], seconds: float) -> None:
        with self._changed:
            if not self._changed.wait_for(holds, seconds):
                raise TimeoutError(f"{self.kind.name}: {len(self._requests)} struck, {len(self._answers)} answered")

    # --- for the proxy -------------------------------------------------------------------------------------

    def takes(self, request: bytes) -> bool:
        """True if the rule acts on this request. The request is then counted."""
        if not self._fits(request):
            return False
        self._seen += 1
        with self._changed:
            meant = self._seen in self._numbers
        if meant:
            self._note(request)
        return meant

    def follows(self, request: bytes) -> RequestStrike | None:
        """This rule, if the client sent the request after one of the same kind that is held with its connection cut;
        else None.
        """
        if not self._fits(request):
            return None
        self._note(request)
        return self

    async def over(self) -> None:
        """Wait until a held request may be delivered."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._released.wait(), self._seconds)

    def note_answer(self, answer: bytes) -> None:
        with self._changed:
            self._answers.append(answer)
            self._changed.notify_all()

    def _fits(self, request: bytes) -> bool:
        (key,) = struct.unpack_from(">h", request)
        return key == self._key and (self._where is None or self._where(request))

    def _note(self, request: bytes) -> None:
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()
