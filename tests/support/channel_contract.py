"""The writing end of a channel under the contract of sinks, read as its readers read it."""

from __future__ import annotations

import secrets

import msgspec
import pytest

from tidegate.channels.log import ChannelLog
from tidegate.channels.reading import ChannelRowsOfTask
from tidegate.channels.sink import ChannelSink
from tidegate.core.records import ChannelKey, Outcome
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import IDENTITY, Row, SinkContract, attempt_of, rows_from
from tidegate.testing.contract_parts import SCHEMA


class ChannelContract(SinkContract):
    """Set `root` in a fixture, for a channel that is not on a disk."""

    root: Folder | None = None
    key: ChannelKey | None = None

    @pytest.fixture(autouse=True)
    def _target(self) -> None:
        self.name = secrets.token_hex(6)

    def make_sink(self) -> ChannelSink:
        return ChannelSink("numbers", self.channel, key=self.key)

    @property
    def channel(self) -> Folder:
        return (Folder.of(self.folder) if self.root is None else self.root / self.name / self.folder.name) / "channel"

    def read_target(self) -> list[Row]:
        log = ChannelLog(self.channel)
        rows = ChannelRowsOfTask(self.channel, SCHEMA, "a test")
        return [row for batch in rows(log.between({}, log.ends, "a test")) for row in batch.to_pylist()]

    def test_others_of_a_like_name_are_left_alone(self) -> None:
        """A channel has one writer: what another query of the job prepares for it is refused."""
        sink, other = self.opened(), msgspec.structs.replace(IDENTITY, query=f"{IDENTITY.query}-2")
        ours = self.prepared(sink, attempt_of(epoch=1), rows_from(0, 2))
        theirs = self.prepared(sink, msgspec.structs.replace(attempt_of(epoch=5), sink=other), rows_from(1, 2))
        self.all_answer(sink.commit([ours]), Outcome.COMMITTED)
        self.all_answer(sink.commit([theirs]), Outcome.UNKNOWN)
        self.target_has(rows_from(0, 2))

    def test_a_new_generation_may_have_another_writer(self) -> None:
        sink, other = self.opened(), msgspec.structs.replace(IDENTITY, query=f"{IDENTITY.query}-2", generation=2)
        self.all_answer(sink.commit([self.prepared(sink, attempt_of(), rows_from(0, 2))]), Outcome.COMMITTED)
        theirs = self.prepared(sink, msgspec.structs.replace(attempt_of(), sink=other), rows_from(1, 2))
        self.all_answer(sink.commit([theirs]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2), rows_from(1, 2))
