"""Splits the bytes of a connection into lines."""

from __future__ import annotations


class LineTooLong(Exception):
    """A line is longer than the limit. `before`: the complete lines before it."""

    def __init__(self, before: list[bytes], length: int) -> None:
        super().__init__(f"{length} bytes")
        self.before = before
        self.length = length


class LineCutter:
    """The lines of one connection. The newline at the end of a line is not part of it."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes. Returns the lines that are complete now; the bytes of an unfinished line are kept.

        Raises LineTooLong as soon as a line, complete or unfinished, exceeds the limit.
        """
        first, *further = data.split(b"\n")
        self._parts.append(first)
        self._held += len(first)
        lines: list[bytes] = []
        if further:
            lines = [b"".join(self._parts), *further[:-1]]
            self._parts = [further[-1]]
            self._held = len(further[-1])
        for number, line in enumerate(lines):
            if len(line) > self._limit_bytes:
                raise LineTooLong(lines[:number], len(line))
        if self._held > self._limit_bytes:
            raise LineTooLong(lines, self._held)
        return lines

    def rest(self) -> bytes:
        """The bytes of an unfinished line."""
        return b"".join(self._parts)
