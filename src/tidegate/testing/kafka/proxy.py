"""A proxy in front of a broker that holds, drops and repeats single requests. All other bytes pass unchanged.

    with Broker.start(folder, detour=True) as broker, Proxy(broker) as proxy:
        late = proxy.hold(ApiKey.EndTxn, cut=True)
        ...  # clients connect to `proxy.servers`; the first EndTxn is held, and its client sends it again
        late.release()
        late.wait_for_answers()

With `detour=True` the broker has a second listener, which advertises the proxy's address. So the proxy need not change
the broker's answers. The proxy reads only the frame of a request: length, kind (`kafka.protocol.api_key.ApiKey`),
version, correlation id.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import NoReturn

from tidegate.core.errors import Code, TidegateError
from tidegate.testing.kafka.broker import Broker
from tidegate.testing.kafka.record import Detour
from tidegate.testing.kafka.strike import RequestStrike, StrikeKind

_START_SECONDS = 10.0
_CLOSE_SECONDS = 1.0
_LARGEST = 128 << 20
"""More than any frame that a broker takes: what claims to be larger is none."""


class Proxy:
    """A context manager that listens in front of each broker of a cluster that was started with `detour=True`.

    Add rules at any time, from any thread. `first` and `count`: a rule acts on `count` requests of its kind, from the
    `first` one after the rule was added. If several rules match a request, the oldest one acts. `where`: called with
    the bytes of a request, without the length field; the rule matches only if it returns True.
    """

    def __init__(self, broker: Broker) -> None:
        self._detours = broker.detours
        if not self._detours:
            raise TidegateError(
                Code.BROKER_REFUSED,
                expected="a broker that can be reached by way of a proxy",
                found="it listens for its clients alone",
                where=str(broker.folder),
                next_step="start it with detour=True, in a new folder",
            )
        self._lock = threading.Lock()
        self._strikes: list[RequestStrike] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="kafka-proxy", daemon=True)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._end = asyncio.Event()

    @property
    def servers(self) -> str:
        """The bootstrap servers for clients that are to connect through the proxy."""
        return ",".join(f"127.0.0.1:{detour.proxy_port}" for detour in self._detours)

    # --- rules ---------------------------------------------------------------------------------------------

    def hold(
        self,
        key: int,
        *,
        seconds: float | None = None,
        cut: bool = False,
        first: int = 1,
        count: int = 1,
        where: Callable[[bytes], bool] | None = None,
    ) -> RequestStrike:
        """Hold a request for `seconds`, or until the strike is released, and then deliver it to the broker.

        Later requests on the same connection wait behind it. With `cut`, the client's connection is closed at once, so
        the client sends the request again; the held request is delivered all the same.
        """
        kind = StrikeKind.HOLD_AND_CUT if cut else StrikeKind.HOLD
        return self._add(RequestStrike(kind, key, self._loop, seconds, first, count, where))

    def drop(
        self, key: int, *, first: int = 1, count: int = 1, where: Callable[[bytes], bool] | None = None
    ) -> RequestStrike:
        """Close the connection before the request reaches the broker."""
        return self._add(RequestStrike(StrikeKind.DROP, key, self._loop, None, first, count, where))

    def drop_answer(
        self, key: int, *, first: int = 1, count: int = 1, where: Callable[[bytes], bool] | None = None
    ) -> RequestStrike:
        """Deliver the request to the broker, and close the connection before the answer reaches the client."""
        return self._add(RequestStrike(StrikeKind.DROP_ANSWER, key, self._loop, None, first, count, where))

    def repeat(
        self, key: int, *, first: int = 1, count: int = 1, where: Callable[[bytes], bool] | None = None
    ) -> RequestStrike:
        """Deliver the request to the broker twice, one directly after the other.

        The client receives the first answer.
        """
        return self._add(RequestStrike(StrikeKind.REPEAT, key, self._loop, None, first, count, where))

    def forget(self) -> None:
        """Remove all rules and deliver all held requests."""
        with self._lock:
            over, self._strikes = self._strikes, []
        for strike in over:
            strike.release()

    def _add(self, strike: RequestStrike) -> RequestStrike:
        with self._lock:
            self._strikes.append(strike)
        return strike

    def _struck_by(self, request: bytes) -> RequestStrike | None:
        """The rule that acts on this request, or None. The request is then counted for the rule."""
        with self._lock:
            return next((strike for strike in self._strikes if strike.takes(request)), None)

    # --- the thread that serves ----------------------------------------------------------------------------

    def __enter__(self) -> Proxy:
        self._thread.start()
        if not self._ready.wait(_START_SECONDS) or self._failure is not None:
            self._refuse()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close all connections. Requests that are still held are lost."""
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _refuse(self) -> NoReturn:
        raise TidegateError(
            Code.BROKER_REFUSED,
            expected="a proxy that listens",
            found=str(self._failure or f"not ready after {_START_SECONDS:.0f} s"),
            where=self.servers,
            next_step="end what listens there",
        )

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except OSError as error:
            self._failure = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        connections = set[asyncio.Task[None]]()
        with ExitStack() as servers:
            for detour in self._detours:
                servers.callback((await self._listen(detour, connections)).close)
            self._ready.set()
            await self._end.wait()
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _listen(self, detour: Detour, connections: set[asyncio.Task[None]]) -> asyncio.Server:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = asyncio.ensure_future(_Connection(self._struck_by, reader, writer).run(detour.port))
            connections.add(connection)
            connection.add_done_callback(connections.discard)

        return await asyncio.start_server(connected, "127.0.0.1", detour.proxy_port)


class _Connection:
    """A client's connection, and the proxy's connection to the broker for it."""

    def __init__(
        self,
        struck_by: Callable[[bytes], RequestStrike | None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._struck_by = struck_by
        self._reader = reader
        self._writer = writer
        self._waiting: dict[int, list[RequestStrike]] = {}
        """By correlation id: the strikes on requests that the broker has not answered yet."""
        self._answered = asyncio.Event()
        self._late: RequestStrike | None = None
        """What has cut the client off while its requests were kept back."""

    async def run(self, port: int) -> None:
        try:
            with suppress(OSError):  # a broker that is down is, for its client, a connection that breaks
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                await self._pump(reader, writer)
        finally:
            await _closed(self._writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pumps = [asyncio.ensure_future(each) for each in (self._requests(writer), self._answers(reader))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            await _closed(writer)

    async def _requests(self, broker: asyncio.StreamWriter) -> None:
        """Pass requests from the client to the broker, until the client closes its connection or a rule breaks it."""
        while (frame := await _frame(self._reader)) is not None:
            strike = self._struck_by(frame) if self._late is None else self._late.follows(frame)
            if strike is not None and strike.kind is StrikeKind.DROP:
                return
            if strike is not None and strike.holds:
                await self._keep_back(strike)
            for _ in range(2 if strike is not None and strike.kind is StrikeKind.REPEAT else 1):
                if strike is not None:
                    self._answered.clear()
                    self._waiting.setdefault(_correlation(frame[4:]), []).append(strike)
                broker.write(_length(frame) + frame)
            await broker.drain()
        if self._late is not None and self._waiting:
            await self._answered.wait()

    async def _keep_back(self, strike: RequestStrike) -> None:
        if strike.kind is StrikeKind.HOLD_AND_CUT and self._late is None:
            self._late = strike
            self._writer.write_eof()
        await strike.over()

    async def _answers(self, broker: asyncio.StreamReader) -> None:
        """Pass answers from the broker to the client, or only to the strike that asked for them.

        Ends when the broker closes the connection or a rule breaks it.
        """
        while (frame := await _frame(broker)) is not None:
            strikes = self._waiting.get(_correlation(frame), [])
            strike = strikes.pop(0) if strikes else None
            is_last = strike is not None and not strikes
            if is_last:
                del self._waiting[_correlation(frame)]
            if strike is not None:
                strike.note_answer(frame)
            if not self._waiting:
                self._answered.set()
            if strike is not None and strike.kind is StrikeKind.DROP_ANSWER:
                return
            second = strike is not None and strike.kind is StrikeKind.REPEAT and is_last
            if self._late is None and not second:
                self._writer.write(_length(frame) + frame)
                await self._writer.drain()


async def _frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next request or answer, without its length field; None if the other side has closed the connection."""
    try:
        (length,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(length) if 0 <= length <= _LARGEST else None
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Send what is still buffered, if the other side accepts it, and close the connection."""
    writer.close()
    with suppress(OSError, asyncio.TimeoutError):
        await asyncio.wait_for(writer.wait_closed(), _CLOSE_SECONDS)


def _length(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame))


def _correlation(frame: bytes) -> int:
    (number,) = struct.unpack_from(">i", frame)
    return int(number)
