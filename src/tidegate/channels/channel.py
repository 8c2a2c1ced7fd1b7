"""What the coordinator and the readers ask of a channel, wherever its rows are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from tidegate.channels.gate import ChannelGate
from tidegate.channels.log import ChannelLog
from tidegate.channels.reading import DonePositions
from tidegate.core.channel_parts import ChannelPosition
from tidegate.core.records import SinkIdentity
from tidegate.sources.base import Source
from tidegate.storages.schemes import Folder

Shares = Sequence[Any]
"""The rows of an epoch: what each of its tasks reads. A share is pickled to its task."""


@dataclass(frozen=True, slots=True)
class RowsBetween:
    """How much is between two positions. `size_bytes`: 0 if the channel does not know it."""

    rows: int
    size_bytes: int


class Channel(ABC):
    """Rows that one query of a job writes, and other queries of the job read. This is its state in the driver.

    Each row has a number in its part (`tidegate.core.channel_parts`). The log of the channel records where the channel
    ends with each epoch of its writer; nothing is read of the log in a task.
    """

    uid: str
    holds_json: ClassVar[bool] = False
    """True if each row is a JSON object, which cannot hold every type."""
    NOT_PICKLED: ClassVar[Mapping[str, None]] = {"_log": None, "_passed": None, "_gate": None}

    def __init__(self, folder: Folder, max_unread: int | None) -> None:
        """`folder`: that of the channel, in the folder of the job. `max_unread`: the writer begins no epoch while a
        reader has more rows left than this; None: it never waits.
        """
        self.folder = folder
        self.max_unread = max_unread
        self._log: ChannelLog | None = None
        self._passed = DonePositions()
        self._gate = ChannelGate()

    @property
    def log(self) -> ChannelLog:
        """The log, in this process. It is read when it is first asked for."""
        if self._log is None:
            self._log = ChannelLog(self.folder)
        return self._log

    @property
    def passed(self) -> DonePositions:
        """How far the readers are, in this process."""
        return self._passed

    @property
    def gate(self) -> ChannelGate:
        """What holds the readers at a barrier, in this process."""
        return self._gate

    @abstractmethod
    def as_source(self) -> Source:
        """The channel as commands show and check it among the sources of a job."""

    # --- of the writer -------------------------------------------------------------------------------------

    @abstractmethod
    def stand(self, writer: SinkIdentity, epoch: int) -> None:
        """The writer stands between two epochs: `epoch` and all older ones are done, and the next one has not begun.
        Before the first epoch of a generation, `epoch` is the number before it. Afterwards `log.ends` is where the
        channel ends with that epoch. Idempotent. Threads may call it at the same time.
        """

    # --- of the readers ------------------------------------------------------------------------------------

    @abstractmethod
    def begin_of(self, generation: int) -> ChannelPosition:
        """Where the rows of this generation begin that are there: older ones were removed behind all readers."""

    @abstractmethod
    def readable(self) -> ChannelPosition:
        """Where the rows end that a reader may read: at most at `log.ends`."""

    def settled(self) -> ChannelPosition:
        """As `readable`, when the rows of all done epochs of the writer can be read. May wait for this."""
        return self.readable()

    @abstractmethod
    def shares(self, begin: ChannelPosition, end: ChannelPosition, tasks: int, where: str) -> Shares:
        """The rows between two positions, divided among at most `tasks` tasks. `where`: the source, for errors.

        Raises CHANNEL_LOST if a row is not there any more.
        """

    @abstractmethod
    def rows(self, schema: pa.Schema, where: str) -> Callable[[Any], Iterator[pa.RecordBatch]]:
        """Reads a share in a task. It is pickled to the tasks. `schema`: the columns."""

    @abstractmethod
    def between(self, begin: ChannelPosition, end: ChannelPosition) -> RowsBetween:
        """How much is between two positions."""
