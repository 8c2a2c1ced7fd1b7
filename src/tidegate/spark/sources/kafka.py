"""The Kafka source: confluent-kafka reads the records, without jars.

The position where it begins is found once, before Spark starts the query, and recorded in *start*. Spark asks for the
first offset several times, and again at every replay; the answer is always the one in *start*.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Literal

from pyspark.sql import DataFrame, SparkSession

from tidegate.checkpoints.tempo import Tempo
from tidegate.core.errors import Code, raise_all
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.core.levels import Level
from tidegate.core.spelling import did_you_mean
from tidegate.kafka.clients import Clients, as_text
from tidegate.kafka.options import LOGINS, OWNED_BY_SOURCE, End, option_violations
from tidegate.sources.kafka.behind import LagGauge
from tidegate.sources.kafka.described import DescribedKafka
from tidegate.sources.kafka.lag import LagGroup
from tidegate.sources.kafka.offsets import Bounds, Offsets, Skip, least
from tidegate.sources.kafka.places import TopicPlace, resolve
from tidegate.sources.kafka.source import LostRecords, TopicReading
from tidegate.sources.kafka.topics import Topics, TopicSelection
from tidegate.sources.refusals import other_source
from tidegate.sources.value_parsing import VALUE
from tidegate.spark.sources.kafka_stream import stream_of
from tidegate.spark.sources.refusals import not_newest, unfit_option
from tidegate.spark.sources.source import Ground, Monitor, OpenedSource, PositionedSource, SourceUse
from tidegate.spark.sources.value_formats import ValueFormat

_LOG = logging.getLogger("tidegate")


class KafkaSource(DescribedKafka, PositionedSource, OpenedSource):
    """Records of topics, with the columns of Spark's Kafka connector; from transactional topics only committed records.

    Give one of `topics`, `pattern` (a regular expression that matches whole names) or `partitions` (`{"lines": [0,
    1]}`). `start` and `stop`: "earliest", "latest", a datetime with its time zone, or one of these or an offset for
    every partition (`{"lines": {0: 17, 1: "latest"}}`). They are looked up once, at the first start. A `stop` before
    the start is refused. An at-most-once job starts at the latest. `start="group"` begins at the committed offsets of
    the consumer group `group`; a partition without one begins at its oldest record.

    `options` are those of librdkafka. A value `env:NAME` or `file:PATH` is read when a client is opened. `headers=True`
    adds the column of headers. `max_rows` and `max_bytes` limit an epoch; `max_bytes` is approximate: it uses the mean
    size of the next keys and values. `group`: the offsets of done epochs are committed to this consumer group, for lag
    tools only (`{}` stands for `<job>.<query>.<source>`); None: no group.

    `lost`: what to do if records were deleted before they were read, or a topic was created again: "refuse" the start
    or the epoch, or "skip" them. With "skip" it continues at the oldest record and logs a warning with the number of
    lost ones.

    `value`: the format of the values, `JSON(schema)`, `CSV(schema)` or `Text()`: the column `value` then has typed
    fields (`records.select("value.*")`), which are parsed while the records are read. None: `value` has the bytes.
    """

    kind: ClassVar[str] = "kafka"

    def __init__(
        self,
        servers: str,
        *,
        topics: Sequence[str] = (),
        pattern: str | None = None,
        partitions: Mapping[str, Sequence[int]] | None = None,
        start: TopicPlace | None = None,
        stop: TopicPlace | None = None,
        options: Mapping[str, str | int | float | bool] | None = None,
        headers: bool = False,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        group: str | None = "tidegate.{}",
        lost: Literal["refuse", "skip"] = "refuse",
        value: ValueFormat | None = None,
    ) -> None:
        clients = Clients(servers, {name: as_text(given) for name, given in (options or {}).items()})
        named = {topic: tuple(sorted(numbers)) for topic, numbers in (partitions or {}).items()}
        selection = TopicSelection((topics,) if isinstance(topics, str) else tuple(topics), pattern, named)
        super().__init__(clients, selection)
        self.start: TopicPlace | None = start
        self.stop: TopicPlace | None = stop
        self.headers = headers
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self.group = group
        self.lost = lost
        self.value = value

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        self._check(where, level)
        return self._stream(session, self._reading(where), None)

    def opened(self, ground: Ground) -> OpenedSource:
        return self  # it keeps nothing of its own

    def begin(self, where: str, level: Level, generation: int) -> str:
        reading = self._reading(where)
        start: TopicPlace = "latest" if level is Level.AT_MOST_ONCE else self.start or "earliest"
        return resolve(reading, Topics(self.clients, where), start, self.stop).to_text()

    def bound(self, session: SparkSession, use: SourceUse) -> DataFrame:
        try:
            bounds = Bounds.from_text(use.position)
        except (Unreadable, KeyError):
            raise other_source("this Kafka source", use.position, use.where) from None
        reading, used = self._reading(use.where, use.tempo), use.columns()
        if reading.values is not None and (fields := used.fields.get(VALUE)) is not None:
            reading = replace(reading, values=reading.values.only(fields))
        return self._stream(session, replace(reading, columns=used), bounds)

    def monitor(self, name: str) -> Monitor:
        group = None if self.group is None else LagGroup(self.clients, self.group.replace("{}", name))
        return KafkaMonitor(name, group, LagGauge(partial(Topics, self.clients, f"source {name}")))

    def _reading(self, where: str, tempo: Tempo | None = None) -> TopicReading:
        return TopicReading(
            clients=self.clients,
            selection=self.selection,
            where=where,
            headers=self.headers,
            max_rows=self.max_rows,
            max_bytes=self.max_bytes,
            tempo=tempo,
            group=self.group,
            lost=LostRecords(self.lost),
            values=None if self.value is None else self.value.parsing(where),
        )

    def _stream(self, session: SparkSession, reading: TopicReading, bounds: Bounds | None) -> DataFrame:
        value_type = None if self.value is None else self.value.kind(reading.where)
        return stream_of(session, reading, bounds, value_type)

    def _check(self, where: str, level: Level) -> None:
        if level is Level.AT_MOST_ONCE and self.start not in (None, "latest"):
            raise not_newest(f"KafkaSource with start={self.start!r}", where)
        mine = [
            unfit_option(expected, found, where, next_step)
            for expected, found, next_step in (*self._violations(), *self._places_violated())
        ]
        raise_all([*mine, *option_violations(self.clients, _SOURCE, where)], where)

    def _violations(self) -> Iterator[tuple[str, str, str]]:
        """For each invalid option: what was expected, what was found, what to do."""
        given = [self.selection.topics, self.selection.pattern, self.selection.partitions]
        count = sum(1 for each in given if each)
        if count != 1:
            yield "one of topics=, pattern= and partitions=", f"{count} of them", _CHANGE
        try:
            re.compile(self.selection.pattern or "")
        except re.error as error:
            yield "pattern= to be a regular expression", f"{self.selection.pattern!r}: {error}", _CHANGE
        for option, limit in (("max_rows", self.max_rows), ("max_bytes", self.max_bytes)):
            if limit is not None and limit < 1:
                yield f"{option}= above 0", str(limit), _CHANGE
        if self.value is not None and not isinstance(self.value, ValueFormat):  # pyright: ignore[reportUnnecessaryIsInstance]
            yield "value= JSON(schema), CSV(schema) or Text()", repr(self.value), _CHANGE
        if self.lost not in _LOST:
            yield f"lost= one of {', '.join(_LOST)}", repr(self.lost), did_you_mean(self.lost, _LOST, _CHANGE)

    def _places_violated(self) -> Iterator[tuple[str, str, str]]:
        for option, place in (("start", self.start), ("stop", self.stop)):
            match place:
                case None:
                    pass
                case "group" if option == "start":
                    if self.group is None or "{}" in self.group:
                        yield 'group= with the name of the group for start="group"', f"group={self.group!r}", _CHANGE
                case Mapping():
                    for topic, spots in place.items():
                        for number, spot in spots.items():
                            yield from _spot_violated(f"{option}= for {topic}-{number}", spot, (int,))
                case _:
                    yield from _spot_violated(f"{option}=", place, ())


def _spot_violated(what: str, spot: object, numbers: tuple[type, ...]) -> Iterator[tuple[str, str, str]]:
    """Problems with the place in a partition, or in all partitions.

    `numbers`: the types that an offset may have, if any.
    """
    match spot:
        case "earliest" | "latest":
            pass
        case datetime():
            if spot.tzinfo is None:
                yield f"{what} a datetime with its time zone", repr(spot), _WITH_A_ZONE
        case int() if numbers and not isinstance(spot, bool) and spot >= 0:
            pass
        case _:
            offset = "an offset, " if numbers else ""
            meant = did_you_mean(str(spot), _WORDS, _CHANGE)
            yield f'{what} {offset}"earliest", "latest" or a datetime with its time zone', repr(spot), meant


_CHANGE = ""
"""No other next step than to give what was expected."""
_WORDS = ("earliest", "latest")
_WITH_A_ZONE = "from datetime import timezone, and write datetime(..., tzinfo=timezone.utc)"


class KafkaMonitor:
    """Commits the offsets of done epochs to a consumer group, and counts the records that epochs have skipped."""

    def __init__(self, name: str, group: LagGroup | None, behind: LagGauge) -> None:
        self._name = name
        self._group = group
        self._behind = behind
        self._newest: Offsets | None = None
        self._skipped = 0
        self._uncounted = 0

    def tell(self, positions: Sequence[str]) -> None:
        offsets = least([Offsets.from_json(parsed(position, dict[str, Any])) for position in positions])
        if self._group is not None:
            self._group.tell(offsets)
        self._behind.tell(offsets.next)
        if offsets != self._newest:  # an epoch without news says again what the one before it skipped
            self._newest = offsets
            self._count(offsets.skipped.values())

    def behind(self) -> int | None:
        return self._behind.records()

    def close(self) -> None:
        self._behind.close()
        if self._group is not None:
            self._group.close()

    def _count(self, skipped: Collection[Skip]) -> None:
        if not skipped:
            return
        counted = [skip.records for skip in skipped if skip.records is not None]
        self._skipped += sum(counted)
        self._uncounted += len(skipped) - len(counted)
        _LOG.warning(
            "source %s: since the start %d lost records were skipped, and %d times an unknown number",
            self._name,
            self._skipped,
            self._uncounted,
            extra={"event": "RecordsSkipped"},
        )


_SOURCE = End(OWNED_BY_SOURCE, Code.SOURCE_OPTION, LOGINS)
_LOST = tuple(each.value for each in LostRecords)
