"""The interface `IngestLog`: the rows of a source that cannot be read again, kept before an epoch has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from tidegate.checkpoints.ingest_frames import Frame, Payload
from tidegate.checkpoints.ingest_layout import IngestPosition


class LogPart(Protocol):
    """Rows of a log for one task, which may run on another machine. It can be pickled."""

    @property
    def begin(self) -> IngestPosition:
        """The position before the first row."""
        ...

    def frames(self) -> Iterator[Frame]:
        """The frames with these rows, in order. Raises RECORD_CORRUPT at the first broken frame, INGEST_LOST if a file
        is missing.
        """
        ...

    def all_frames(self) -> Iterator[Frame]:
        """Also those without rows: between the two positions no byte of the log is missing. Raises the same."""
        ...


class IngestLog(Protocol):
    """A log that is open for appending, by one process. Threads may share it.

    A row counts once `append` has returned: then it survives a kill and a power loss. Rows that no checkpoint needs are
    trimmed, in whole files.
    """

    @property
    def gather_seconds(self) -> float:
        """How long a feed gathers rows before it appends them, in seconds: less where an append costs less."""
        ...

    @property
    def begin(self) -> IngestPosition:
        """The position before the oldest kept row."""
        ...

    @property
    def end(self) -> IngestPosition:
        """The position after the newest row that counts."""
        ...

    def append(self, lines: Sequence[bytes]) -> IngestPosition:
        """Append lines without newlines to the log, and return its new end."""
        ...

    def append_payload(self, payload: Payload) -> IngestPosition:
        """Append rows, and return the new end. They count when this returns, all of them.

        If it raises STORAGE_FULL, none of them counts, and the caller may append them again. After any other error
        nothing more may be appended, and the next opening of the log shows whether they count. Raises LEASE_LOST if
        another process has opened the log since: then it is that process that appends.
        """
        ...

    def last_frame(self) -> Frame | None:
        """The frame with rows that was appended last; None if the log holds none."""
        ...

    def require(self, wanted: IngestPosition, where: str) -> None:
        """Raise INGEST_LOST if this is another log than `wanted` refers to, or does not contain that position.
        `where`: the name of the source in errors.
        """
        ...

    def parts(self, begin: IngestPosition, end: IngestPosition, where: str) -> Sequence[LogPart]:
        """The rows between two positions, in order; each part is for one task. Raises INGEST_LOST if they are not all
        there. `where`: the name of the source in errors.
        """
        ...

    def is_worth_a_trim(self, before: IngestPosition) -> bool:
        """True if `trim` would remove as much as is worth its cost."""
        ...

    def trim(self, before: IngestPosition) -> None:
        """Remove the files that end at `before` or earlier, the oldest first; never the one with the last frame."""
        ...

    def close(self) -> None:
        """Release the log for the next opener. A second call does nothing."""
        ...
