"""An embedded channel as its readers see it, opened by a command: from the description of the job's newest start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tidegate.channels.log import ChannelLog
from tidegate.core.errors import TidegateError
from tidegate.core.health import Finding, failed_by, ok
from tidegate.sources.base import Replay, Source, Traits
from tidegate.storages.schemes import Folder


class DescribedChannel(Source):
    """The rows of an embedded channel."""

    kind: ClassVar[str] = "channel"
    traits = Traits(Replay.EXACT)

    def __init__(self, folder: Folder) -> None:
        """`folder`: that of the channel."""
        self._folder = folder

    def describe(self) -> Mapping[str, object]:
        return {"folder": str(self._folder)}

    @classmethod
    def from_description(cls, described: Mapping[str, object], options: Mapping[str, str]) -> Source:
        return DescribedChannel(Folder.of(str(described["folder"])))

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return f"channel {described['folder']}"

    def probe(self, what: str) -> Sequence[Finding]:
        """Read the records of the channel, and count the rows that they name."""
        try:
            kept = ChannelLog(self._folder).kept
        except TidegateError as error:
            return failed_by(what, error)
        return [ok(what, f"{self.told(self.describe())}: {kept.epochs} epochs with {kept.rows} rows are kept")]
