"""The description of a Kafka source that each start writes, and the checks that a command makes from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.health import Finding, failed_by, ok
from tidegate.kafka.clients import Clients
from tidegate.kafka.shown_options import shown_options
from tidegate.sources.base import Begins, Replay, Source, Traits
from tidegate.sources.kafka.topics import PartitionEnd, Topics, TopicSelection


class KafkaInput(msgspec.Struct, frozen=True, kw_only=True):
    """The topics and client options of a Kafka source. `left_out`: the names of options that may be secrets."""

    servers: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: dict[str, tuple[int, ...]] = {}
    options: dict[str, str] = {}
    left_out: tuple[str, ...] = ()

    @property
    def selection(self) -> TopicSelection:
        return TopicSelection(self.topics, self.pattern, self.partitions)

    def __str__(self) -> str:
        return f"Kafka {self.servers}, {self.selection}"


class DescribedKafka(Source):
    """A source of records from Kafka topics."""

    kind: ClassVar[str] = "kafka"
    traits = Traits(Replay.EXACT, Begins.EITHER)

    def __init__(self, clients: Clients, selection: TopicSelection) -> None:
        self.clients = clients
        self.selection = selection

    def describe(self) -> Mapping[str, object]:
        kept = shown_options(self.clients.options)
        found = KafkaInput(
            servers=self.clients.servers,
            topics=self.selection.topics,
            pattern=self.selection.pattern,
            partitions=dict(self.selection.partitions),
            options=kept,
            left_out=tuple(sorted(self.clients.options.keys() - kept.keys())),
        )
        return msgspec.to_builtins(found, str_keys=True)

    @classmethod
    def from_description(cls, described: Mapping[str, object], options: Mapping[str, str]) -> Source:
        found = msgspec.convert(described, KafkaInput, strict=False)
        return DescribedKafka(Clients(found.servers, {**found.options, **options}), found.selection)

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return str(msgspec.convert(described, KafkaInput, strict=False))

    def probe(self, what: str) -> Sequence[Finding]:
        """Test whether the topics exist and can be read, and count their records."""
        try:
            topics = Topics(self.clients, what)
            found = topics.find(self.selection)
            ends, begins = (topics.at(found.partitions, mark) for mark in (PartitionEnd.LATEST, PartitionEnd.EARLIEST))
        except TidegateError as error:
            return failed_by(what, error)
        records = sum(ends[each] - begins[each] for each in found.partitions)
        return [ok(what, f"{self.selection}: {len(found.partitions)} partitions with {records} offsets")]
