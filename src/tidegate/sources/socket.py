"""The description of a socket source, and the check that a command makes from it; without Spark."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import ClassVar

from tidegate.core.health import Finding, failed, ok
from tidegate.sources.base import Absence, Begins, Replay, Source, Traits

LINE_BYTES_AT_MOST = 1 << 28


class DescribedSocket(Source):
    """A source of lines from a TCP server."""

    kind: ClassVar[str] = "socket"
    traits = Traits(Replay.NONE, Begins.NEWEST, Absence.LOST)

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def describe(self) -> Mapping[str, object]:
        return {"host": self.host, "port": self.port}

    @classmethod
    def from_description(cls, described: Mapping[str, object], options: Mapping[str, str]) -> Source:
        return cls(str(described["host"]), int(str(described["port"])))

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return f"lines from {described['host']}:{described['port']}"

    def probe(self, what: str) -> Sequence[Finding]:
        """Test whether the server's name can be resolved.

        It does not connect: a connection would take lines from the job.
        """
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            return [failed(what, f"{self.host}: {error}", "mend the host of the source, or the names of this machine")]
        return [ok(what, f"{self.host} is {found[0][4][0]}; not connected, because a connection would take lines")]
