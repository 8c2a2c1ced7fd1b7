"""Offsets as values, and where an epoch of the Kafka source ends: limits, bounds, new partitions, what is refused."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.integration.place import error_of
from tests.support.logged import told
from tidegate.checkpoints.tempo import Tempo
from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.core.spark_log import goes_back, same_position
from tidegate.kafka.clients import Clients
from tidegate.sources.kafka.behind import LagGauge
from tidegate.sources.kafka.offsets import (
    Bounds,
    OffsetOf,
    OffsetRange,
    Offsets,
    Partition,
    Skip,
    least,
    ranges,
    rows_between,
    share_out,
    shared_by_tasks,
)
from tidegate.sources.kafka.places import resolve
from tidegate.sources.kafka.source import (
    ANSWER_KEPT_SECONDS,
    LOOK_FOR_PARTITIONS_SECONDS,
    EndFinder,
    LostRecords,
    TopicReading,
)
from tidegate.sources.kafka.topics import FoundPartitions, PartitionEnd, TopicSelection
from tidegate.spark.sources.kafka import KafkaMonitor, KafkaSource
from tidegate.storages.schemes import Folder

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)

# --- values ------------------------------------------------------------------------------------------------


def test_offsets_are_readable_in_a_checkpoint_and_have_one_spelling():
    offsets = Offsets({("b", 10): 3, ("b", 9): 2, ("a", 0): 17}, {"b": "id-b", "a": "id-a"})
    spelt = json.dumps(offsets.to_json())
    assert spelt == '{"a": {"0": 17}, "b": {"9": 2, "10": 3}, "topic ids": {"a": "id-a", "b": "id-b"}}'
    assert Offsets.from_json(json.loads(spelt)) == offsets


def test_what_an_epoch_skips_stands_in_its_end_and_comes_back():
    offsets = Offsets({A0: 9, A1: 0}, {"a": "id"}, {A0: Skip(7, 2), A1: Skip(0, None)})
    spelt = json.dumps(offsets.to_json())
    assert spelt == (
        '{"a": {"0": 9, "1": 0}, "topic ids": {"a": "id"},'
        ' "skipped records": {"a": {"0": {"to": 7, "records": 2}, "1": {"to": 0, "records": null}}}}'
    )
    assert Offsets.from_json(json.loads(spelt)) == offsets
    assert json.dumps(Offsets.from_json(json.loads(spelt)).to_json()) == spelt


def test_where_a_source_begins_and_ends_comes_back_from_start():
    for stop in (None, {A0: 20}):
        bounds = Bounds(Offsets({A0: 17}, {"a": "id"}), stop)
        assert Bounds.from_text(bounds.to_text()) == bounds


def text(next_: dict[Partition, int], **ids: str) -> str:
    return json.dumps(Offsets(next_, ids).to_json())


def test_the_ledger_sees_offsets_that_go_back_and_topics_that_are_others():
    before = text({A0: 5, A1: 2}, a="one")
    assert not goes_back(before, text({A0: 5, A1: 3, B0: 0}, a="one", b="two"))
    assert goes_back(before, text({A0: 5, A1: 1}, a="one"))
    assert goes_back(before, text({A0: 9}, a="one"))
    assert goes_back(before, text({A0: 9, A1: 9}, a="other"))
    assert same_position(before, text({A1: 2, A0: 5}, a="one"))
    assert not same_position(before, text({A1: 2, A0: 5}, a="other"))


def test_the_ledger_lets_go_back_what_is_skipped_and_nothing_else():
    def after(next_: dict[Partition, int], topic_id: str, *skipped: Partition) -> str:
        return json.dumps(Offsets(next_, {"a": topic_id}, {each: Skip(0, None) for each in skipped}).to_json())

    before = text({A0: 5, A1: 2}, a="one")
    assert not goes_back(before, after({A0: 0, A1: 2}, "one", A0))
    assert goes_back(before, after({A0: 0, A1: 1}, "one", A0)), "the other partition goes back unsaid"
    assert goes_back(before, after({A1: 2}, "one", A0)), "skipped is not gone"
    assert not goes_back(before, after({A0: 0, A1: 0}, "other", A0, A1))
    assert goes_back(before, after({A0: 0, A1: 1}, "other", A0))
    assert goes_back(before, after({A0: 9, A1: 9, B0: 0}, "other", B0)), "it is another topic that skips"
    behind = after({A0: 0, A1: 2}, "one", A0)
    assert not goes_back(behind, behind)
    assert goes_back(behind, text({A0: 0, A1: 1}, a="one")), "its order is still known"


def test_an_epoch_reads_from_where_its_end_says_it_skipped_to():
    start = Offsets({A0: 5, A1: 12}, {"a": "id"})
    end = Offsets({A0: 9, A1: 3}, {"a": "id"}, {A0: Skip(7, 2), A1: Skip(3, None)})
    assert ranges(start, end) == [OffsetRange("a", 0, 7, 9)]
    assert ranges(end, end) == [], "an epoch without news of this source"
    assert ranges(end, Offsets({A0: 10, A1: 4}, {"a": "id"})) == [OffsetRange("a", 0, 9, 10), OffsetRange("a", 1, 3, 4)]


def test_an_epoch_reads_what_lies_between_and_nothing_of_a_partition_it_finds():
    start, end = Offsets({A0: 5, A1: 2}), Offsets({A0: 7, A1: 2, B0: 40})
    assert ranges(start, end) == [OffsetRange("a", 0, 5, 7)]
    assert ranges(end, Offsets({A0: 7, A1: 2, B0: 41})) == [OffsetRange("b", 0, 40, 41)]


@given(
    st.dictionaries(st.integers(0, 20), st.tuples(st.integers(0, 50), st.integers(0, 1000)), min_size=1),
    st.integers(1, 3000),
)
def test_a_limit_is_kept_moves_on_and_goes_beyond_no_end(found: dict[int, tuple[int, int]], rows: int):
    start = {("t", number): begin for number, (begin, _) in found.items()}
    ends = {("t", number): begin + count for number, (begin, count) in found.items()}
    limited = share_out(start, ends, rows)
    assert limited.keys() == ends.keys()
    assert all(start[each] <= limited[each] <= ends[each] for each in ends)
    waiting = rows_between(Offsets(start), Offsets(ends))
    assert rows_between(Offsets(start), Offsets(limited)) == min(rows, waiting)


# --- the end of an epoch -----------------------------------------------------------------------------------


@dataclass
class Cluster:
    """What the brokers hold, set by a test."""

    ends: dict[Partition, int]
    oldest: dict[Partition, int] = field(default_factory=dict[Partition, int])
    ids: dict[str, str] = field(default_factory=lambda: {"a": "id-a", "b": "id-b"})
    groups: dict[str, dict[Partition, int]] = field(default_factory=dict[str, dict[Partition, int]])
    down: bool = False
    asked: int = 0

    def find(self, selection: TopicSelection) -> FoundPartitions:
        self._answer()
        return FoundPartitions(frozenset(self.ends), {topic: self.ids[topic] for topic, _ in self.ends})

    def at(self, partitions: frozenset[Partition], mark: PartitionEnd) -> dict[Partition, int]:
        self._answer()
        return {
            each: self.ends[each] if mark is PartitionEnd.LATEST else self.oldest.get(each, 0) for each in partitions
        }

    def at_time(self, partitions: frozenset[Partition], milliseconds: int) -> dict[Partition, int]:
        raise NotImplementedError

    def committed(self, partitions: frozenset[Partition], group: str) -> dict[Partition, int]:
        return {each: offset for each, offset in self.groups[group].items() if each in partitions}

    def _answer(self) -> None:
        self.asked += 1
        if self.down:
            raise TidegateError(Code.KAFKA_UNREACHABLE, expected="", found="down", where="", next_step="")


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def finder(
    cluster: Cluster,
    clock: Callable[[], float] | None = None,
    *,
    stop: dict[Partition, int] | None = None,
    **limits: Any,
) -> EndFinder:
    reading = TopicReading(
        clients=Clients("broker:1"), selection=TopicSelection(("a",)), where="job j, source s", **limits
    )
    return EndFinder(reading, cluster, stop, lambda *_: 100.0, clock or Clock())


def at(**next_: int) -> Offsets:
    """`at(a0=5)`: partition 0 of topic a at 5."""
    return Offsets(
        {(name[0], int(name[1:])): offset for name, offset in next_.items()}, {n[0]: f"id-{n[0]}" for n in next_}
    )


def test_an_idle_topic_is_not_asked_all_the_time():
    cluster, clock = Cluster({A0: 5}), Clock()
    ends = finder(cluster, clock)
    assert ends.after(at(a0=5)) == at(a0=5)
    asked = cluster.asked
    cluster.ends[A0] = 6
    assert ends.after(at(a0=5)) == at(a0=5)
    assert cluster.asked == asked
    clock.now += 2 * ANSWER_KEPT_SECONDS
    assert ends.after(at(a0=5)) == at(a0=6)


def test_a_partition_found_later_begins_in_the_epoch_that_lists_it_and_is_read_from_the_next():
    cluster, clock = Cluster({A0: 5}), Clock()
    ends = finder(cluster, clock)
    assert ends.after(at(a0=5)) == at(a0=5)
    cluster.ends[A1], cluster.oldest[A1] = 9, 4
    clock.now += 2 * LOOK_FOR_PARTITIONS_SECONDS
    assert ends.after(at(a0=5)) == at(a0=5, a1=4)
    assert ends.after(at(a0=5, a1=4)) == at(a0=5, a1=9)


def test_a_run_until_caught_up_ends_where_the_topic_ended_and_takes_new_partitions_along():
    cluster = Cluster({A0: 5, A1: 3})
    ends = finder(cluster)
    ends.catch_up()
    cluster.ends |= {A0: 50, A1: 30, B0: 7}
    first = ends.after(at(a0=2))
    assert first == at(a0=5, a1=0)
    assert ends.after(first) == at(a0=5, a1=3)
    assert ends.after(at(a0=5, a1=3)) == at(a0=5, a1=3)


def test_a_bounded_source_stops_at_its_bound_although_the_topic_goes_on():
    cluster = Cluster({A0: 50, A1: 50})
    ends = finder(cluster, stop={A0: 9, A1: 2})
    assert ends.after(at(a0=0, a1=2)) == at(a0=9, a1=2)
    assert ends.after(at(a0=9, a1=2)) == at(a0=9, a1=2)


@pytest.mark.parametrize(("limit", "rows"), [({"max_rows": 10}, 10), ({"max_bytes": 2_000}, 20), ({}, 100)])
def test_an_epoch_has_no_more_rows_or_bytes_than_it_may(limit: dict[str, Any], rows: int):
    start = at(a0=0, a1=0)
    assert rows_between(start, finder(Cluster({A0: 70, A1: 30}), **limit).after(start)) == rows


class Measured:
    """How long the newest epoch has taken, as its run has measured it."""

    def __init__(self) -> None:
        self.seconds: float | None = None

    def tempo(self, aim_seconds: float = 1.0, timeout_seconds: float = math.inf) -> Tempo:
        return Tempo(aim_seconds, Folder.of("/no/log"), timeout_seconds, lambda: self.seconds)


def test_how_long_an_epoch_took_sets_the_rows_of_the_next():
    """Not when Spark asks again, which is the interval for an epoch of any length that fits."""
    measured, clock = Measured(), Clock()
    ends = finder(Cluster({A0: 1_000_000}), clock, tempo=measured.tempo())
    first = ends.after(at(a0=0))
    assert first == at(a0=50_000)
    measured.seconds = 4.0
    clock.now += 4.0
    second = ends.after(first)
    assert second == at(a0=100_000), "the first epoch is cold"
    clock.now += 4.0
    third = ends.after(second)
    assert third == at(a0=111_250), "0.9 s of 4 s: the rows of an epoch that ends within the interval"
    measured.seconds = 0.25
    clock.now += 1.0
    assert ends.after(third) == at(a0=111_250 + 40_500), "it took a quarter of the interval: there is room"


@pytest.mark.parametrize(("seconds", "rows"), [(30.0, 1_500), (8.0, 50_000)], ids=["slow", "cold"])
def test_after_an_epoch_that_came_again_and_took_longer_than_the_timeout_epochs_are_smaller(seconds: float, rows: int):
    """Its time counts from the run that has done it, not from the first try. One that only was cold tells nothing."""
    measured = Measured()
    ends = finder(Cluster({A0: 1_000_000}), tempo=measured.tempo(timeout_seconds=10.0))
    assert ends.planned(at(a0=0), at(a0=50_000)), "by a new process, which has not given that end"
    measured.seconds = seconds
    assert rows_between(at(a0=50_000), ends.after(at(a0=50_000))) == rows


def test_without_an_interval_or_a_measured_epoch_nothing_adapts():
    for tempo in (None, Measured().tempo(aim_seconds=0.0)):
        ends = finder(Cluster({A0: 1_000_000}), tempo=tempo)
        assert ends.after(at(a0=0)) == at(a0=1_000_000)
    ends = finder(Cluster({A0: 1_000_000}), tempo=Measured().tempo())
    assert ends.after(at(a0=0)) == at(a0=50_000)
    assert ends.after(at(a0=50_000)) == at(a0=100_000), "nothing is learnt"


def test_a_topic_made_anew_under_the_old_name_is_refused():
    cluster = Cluster({A0: 90}, ids={"a": "id-of-another"})
    error = error_of(lambda: finder(cluster).after(at(a0=5)))
    assert (error.code, "a-0 5" in error.expected, "id-of-another" in error.found) == (
        "TG-KAFKA-TOPIC-RECREATED",
        True,
        True,
    )
    cluster.ends[A0] = 2  # shorter than what was read: the same verdict, not "records lost"
    assert error_of(lambda: finder(cluster).after(at(a0=5))).code == "TG-KAFKA-TOPIC-RECREATED"


def test_records_that_went_before_they_were_read_are_refused_with_their_number():
    error = error_of(lambda: finder(Cluster({A0: 90, A1: 9}, oldest={A0: 7})).after(at(a0=5, a1=3)))
    assert error.code == "TG-KAFKA-OFFSETS-LOST"
    assert (error.expected, error.found) == (
        "the records from a-0 5 on",
        "the oldest that are kept: a-0 7; 2 offsets are gone",
    )


def test_a_topic_that_ends_before_what_was_read_is_refused():
    error = error_of(lambda: finder(Cluster({A0: 4})).after(at(a0=5)))
    assert (error.code, error.found) == ("TG-KAFKA-OFFSETS-LOST", "the topic ends at a-0 4")


def test_a_partition_that_is_gone_is_refused():
    error = error_of(lambda: finder(Cluster({A0: 9})).after(at(a0=5, a1=3)))
    assert (error.code, error.expected) == ("TG-KAFKA-TOPIC-MISSING", "the records from a-1 3 on")


def test_brokers_that_go_away_are_waited_for_once_they_have_answered():
    cluster, clock = Cluster({A0: 5}, down=True), Clock()
    ends = finder(cluster, clock)
    assert error_of(lambda: ends.after(at(a0=5))).code == "TG-KAFKA-UNREACHABLE"
    cluster.down = False
    assert ends.after(at(a0=5)) == at(a0=5)
    cluster.down, clock.now = True, clock.now + 1
    cluster.ends[A0] = 6
    assert ends.after(at(a0=5)) == at(a0=5)
    cluster.down = False
    assert ends.after(at(a0=5)) == at(a0=6)


def test_a_run_until_caught_up_does_not_take_silence_for_the_end():
    cluster = Cluster({A0: 5})
    ends = finder(cluster)
    ends.catch_up()
    cluster.down = True
    assert error_of(lambda: ends.after(at(a0=2))).code == "TG-KAFKA-UNREACHABLE"


def test_offsets_to_start_at_must_name_every_partition_and_lie_in_the_topic():
    reading = TopicReading(clients=Clients("broker:1"), selection=TopicSelection(("a",)), where="job j, source s")
    cluster = Cluster({A0: 9, A1: 9}, oldest={A0: 3})
    assert resolve(reading, cluster, {"a": {0: 3, 1: 9}}, None).start.next == {A0: 3, A1: 9}
    assert error_of(lambda: resolve(reading, cluster, {"a": {0: 3}}, None)).code == "TG-SOURCE-OPTION"
    assert error_of(lambda: resolve(reading, cluster, {"a": {0: 2, 1: 0}}, None)).found == "a-0 2"
    assert error_of(lambda: resolve(reading, cluster, {"a": {0: 3, 1: 10}}, None)).found == "a-1 10"


def test_each_partition_has_a_place_of_its_own():
    reading = TopicReading(clients=Clients("broker:1"), selection=TopicSelection(("a",)), where="job j, source s")
    cluster = Cluster({A0: 9, A1: 9}, oldest={A0: 3, A1: 1})
    bounds = resolve(reading, cluster, {"a": {0: "earliest", 1: "latest"}}, {"a": {0: 5, 1: "latest"}})
    assert (bounds.start.next, bounds.stop) == ({A0: 3, A1: 9}, {A0: 5, A1: 9})


def test_a_stop_before_the_start_is_refused_with_both_positions():
    reading = TopicReading(clients=Clients("broker:1"), selection=TopicSelection(("a",)), where="job j, source s")
    cluster = Cluster({A0: 9, A1: 9})
    error = error_of(lambda: resolve(reading, cluster, {"a": {0: 7, 1: 2}}, {"a": {0: 4, 1: 2}}))
    assert error.code == "TG-SOURCE-OPTION"
    assert ("a-0 7" in error.expected, "a-0 4" in error.found, "a-1" in str(error)) == (True, True, False)
    assert error.where == "job j, source s"
    assert "stop=" in error_of(lambda: resolve(reading, cluster, "latest", "earliest")).found


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (datetime(2024, 1, 1), "tzinfo=timezone.utc"),  # noqa: DTZ001
        ({"a": {0: datetime(2024, 1, 1)}}, "tzinfo=timezone.utc"),  # noqa: DTZ001
        ({"a": {0: "latst"}}, "did you mean latest?"),
        ("earlist", "did you mean earliest?"),
        ({"a": {0: -1}}, "give start= for"),
        ({"a": {0: True}}, "give start= for"),
    ],
)
def test_a_place_that_is_none_is_refused_with_what_to_write(place: Any, told: str):
    source = KafkaSource("broker:1", topics=["a"], start=place)
    error = error_of(lambda: source.load(cast("Any", None), "job j, source s", Level.EXACTLY_ONCE))
    assert error.code == "TG-SOURCE-OPTION"
    assert told in error.next_step


# --- what is lost is skipped -------------------------------------------------------------------------------


def skipping(cluster: Cluster, clock: Callable[[], float] | None = None, **given: Any) -> EndFinder:
    return finder(cluster, clock, lost=LostRecords.SKIP, **given)


def note(end: Offsets) -> tuple[OffsetOf, dict[Partition, tuple[int, int | None]]]:
    """Where an epoch ends, and what it skips."""
    return end.next, {each: (skip.to, skip.records) for each, skip in end.skipped.items()}


def test_lost_records_are_skipped_once_and_counted(caplog: pytest.LogCaptureFixture):
    cluster, clock = Cluster({A0: 90, A1: 9}, oldest={A0: 7}), Clock()
    ends, start = skipping(cluster, clock), at(a0=5, a1=3)
    end = ends.after(start)
    assert note(end) == ({A0: 90, A1: 9}, {A0: (7, 2)})
    assert rows_between(start, end) == 83 + 6
    assert told(caplog) == ["job j, source s: from a-0 5 it continues at 7: 2 records are lost"]
    assert ends.after(end) == end, "nothing new: what Spark holds, with what it says"
    clock.now += 1
    cluster.ends[A0] = 91
    assert note(ends.after(end)) == ({A0: 91, A1: 9}, {})


@pytest.mark.parametrize("limit", [{"max_rows": 10}, {"max_bytes": 1_000}])
def test_a_limit_counts_from_behind_what_is_skipped(limit: dict[str, Any]):
    asked: list[tuple[Partition, int, int]] = []
    cluster = Cluster({A0: 90}, oldest={A0: 70})
    ends = skipping(cluster, **limit)
    ends._row_bytes = lambda *given: asked.append(given) or 100.0  # pyright: ignore[reportPrivateUsage]
    assert note(ends.after(at(a0=5))) == ({A0: 80}, {A0: (70, 65)})
    assert asked == ([(A0, 70, 90)] if "max_bytes" in limit else [])


def test_records_that_all_went_are_skipped_to_the_end():
    assert note(skipping(Cluster({A0: 90}, oldest={A0: 90})).after(at(a0=5))) == ({A0: 90}, {A0: (90, 85)})
    assert note(skipping(Cluster({A0: 90}, oldest={A0: 93})).after(at(a0=5))) == ({A0: 93}, {A0: (93, 88)})


def test_a_bound_is_not_skipped_over():
    cluster = Cluster({A0: 90, A1: 90}, oldest={A0: 70, A1: 70})
    ends = skipping(cluster, stop={A0: 20, A1: 5})
    assert note(ends.after(at(a0=5, a1=5))) == ({A0: 20, A1: 5}, {A0: (20, 15)})


@pytest.mark.parametrize("length", [3, 5, 90])
def test_a_topic_made_anew_is_noted_by_one_epoch_and_read_from_its_oldest_by_the_next(
    length: int, caplog: pytest.LogCaptureFixture
):
    """Also one with as many records as were read of the old one, where no number has changed."""
    cluster = Cluster({A0: length}, oldest={A0: 2}, ids={"a": "another"})
    ends = skipping(cluster)
    noted = ends.after(at(a0=5))
    assert note(noted) == ({A0: 2}, {A0: (2, None)})
    assert noted.topic_ids == {"a": "another"}
    assert "from a-0 5 it continues at 2: it is not known how many records are lost" in caplog.text
    end = ends.after(noted)
    assert note(end) == ({A0: length}, {})
    assert ranges(noted, end) == [OffsetRange("a", 0, 2, length)]


def test_a_topic_that_ends_before_what_was_read_goes_on_at_its_end():
    cluster = Cluster({A0: 4, A1: 9})
    ends = skipping(cluster)
    noted = ends.after(at(a0=5, a1=3))
    assert note(noted) == ({A0: 4, A1: 9}, {A0: (4, None)})
    cluster.ends[A0] = 6
    assert ranges(noted, ends.after(noted)) == [OffsetRange("a", 0, 4, 6)]


def test_a_run_until_caught_up_takes_the_whole_of_a_topic_made_anew():
    ends = skipping(Cluster({A0: 3}, ids={"a": "another"}))
    ends.catch_up()
    noted = ends.after(at(a0=5))
    assert note(noted) == ({A0: 0}, {A0: (0, None)})
    end = ends.after(noted)
    assert note(end) == ({A0: 3}, {})
    assert ends.after(end) == end


def test_a_topic_made_anew_is_refused_although_no_number_has_changed():
    error = error_of(lambda: finder(Cluster({A0: 5}, ids={"a": "another"})).after(at(a0=5)))
    assert error.code == "TG-KAFKA-TOPIC-RECREATED"
    assert 'lost="skip"' in error.next_step


def test_a_partition_that_is_gone_cannot_be_skipped():
    assert error_of(lambda: skipping(Cluster({A0: 9})).after(at(a0=5, a1=3))).code == "TG-KAFKA-TOPIC-MISSING"
    fewer = Cluster({A0: 9}, ids={"a": "another"})
    error = error_of(lambda: skipping(fewer).after(at(a0=5, a1=3)))
    assert (error.code, error.found) == ("TG-KAFKA-TOPIC-MISSING", "a made anew with fewer partitions")


@pytest.mark.parametrize("lost", LostRecords)
def test_a_source_that_is_read_to_its_bound_does_not_mind_what_becomes_of_its_topic(lost: LostRecords):
    cluster = Cluster({A0: 40}, ids={"a": "another"})
    ends = finder(cluster, stop={A0: 100}, lost=lost)
    assert ends.after(at(a0=100)) == at(a0=100)
    cluster.ends[A0] = 300
    assert finder(cluster, stop={A0: 100}, lost=lost).after(at(a0=100)) == at(a0=100)


def test_what_is_read_to_its_bound_keeps_its_topics_id_while_others_go_on():
    cluster = Cluster({A0: 300, B0: 9}, ids={"a": "another", "b": "id"})
    start = Offsets({A0: 100, B0: 3}, {"a": "id", "b": "id"})
    end = skipping(cluster, stop={A0: 100, B0: 50}).after(start)
    assert (end.next, end.topic_ids, end.skipped) == ({A0: 100, B0: 9}, {"a": "id", "b": "id"}, {})


def test_a_replay_reads_what_its_end_says_and_nothing_of_a_topic_made_anew_since(caplog: pytest.LogCaptureFixture):
    cluster = Cluster({A0: 90, B0: 9}, oldest={A0: 7})
    start = at(a0=5, b0=3)
    first = skipping(cluster)
    end = first.after(start)
    asked = cluster.asked
    planned = first.planned(start, end)
    assert planned == [OffsetRange("a", 0, 7, 90), OffsetRange("b", 0, 3, 9)]
    assert cluster.asked == asked, "what was given a moment ago needs no question"
    cluster.oldest[A0] = 50
    assert skipping(cluster).planned(start, end) == planned
    cluster.ids["a"] = "another"
    assert skipping(cluster).planned(start, end) == [OffsetRange("b", 0, 3, 9)]
    assert "a-0 7 to 89 are lost: topic a was made anew" in caplog.text
    assert error_of(lambda: finder(cluster).planned(start, end)).code == "TG-KAFKA-TOPIC-RECREATED"
    assert finder(Cluster({}, down=True)).planned(end, end) == []


def test_what_is_skipped_is_summed_up_once_for_each_epoch(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING, "tidegate")
    monitor = KafkaMonitor("job.query.lines", None, LagGauge(lambda: Cluster({A0: 10, A1: 9})))
    first = Offsets({A0: 9, A1: 9}, {}, {A0: Skip(7, 2), A1: Skip(4, 1)})
    for offsets in (first, first, Offsets({A0: 10}), Offsets({A0: 0}, {}, {A0: Skip(0, None)})):
        monitor.tell([json.dumps(offsets.to_json())])
    monitor.close()
    assert told(caplog) == [
        "source job.query.lines: since the start 3 lost records were skipped, and 0 times an unknown number",
        "source job.query.lines: since the start 3 lost records were skipped, and 1 times an unknown number",
    ]


def test_what_is_before_all_places_of_a_plan_is_done():
    first, second = Offsets({A0: 9, A1: 4}, {"a": "id"}), Offsets({A0: 7, A1: 5, B0: 3}, {"a": "id", "b": "other"})
    assert least([first, second]) == Offsets({A0: 7, A1: 4}, {"a": "id", "b": "other"})
    assert least([first]) == first


# --- clients and errors ------------------------------------------------------------------------------------


def test_secrets_are_read_late_and_never_shown(monkeypatch: pytest.MonkeyPatch, tmp_path):
    (tmp_path / "password").write_text("hush\n")
    clients = Clients("a:1", {"sasl.username": "env:WHO", "sasl.password": f"file:{tmp_path}/password", "x": "plain"})
    monkeypatch.delenv("WHO", raising=False)
    error = error_of(clients.settings)
    assert (error.code, "WHO" in error.expected) == ("TG-OPTION-UNREADABLE", True)
    monkeypatch.setenv("WHO", "me")
    settings = clients.settings(group_id="g")
    assert [settings[name] for name in ("sasl.username", "sasl.password", "group.id")] == ["me", "hush", "g"]
    assert "hush" not in f"{clients} {clients!r}"
    assert "plain" not in f"{clients} {clients!r}"


# --- the tasks of an epoch ---------------------------------------------------------------------------------


def test_few_rows_of_many_partitions_are_read_by_a_task_for_each_core():
    tasks = shared_by_tasks([OffsetRange("a", number, 5, 6) for number in range(64)], cores=2)
    assert [len(task) for task in tasks] == [32, 32]


@pytest.mark.parametrize(("rows", "tasks"), [(1, 4), (199, 4), (250, 5), (500, 10), (1_000_000, 16)])
def test_more_rows_get_more_tasks_but_no_core_more_than_four(rows: int, tasks: int):
    wanted = [OffsetRange("a", number, 0, rows) for number in range(20)]
    assert len(shared_by_tasks(wanted, cores=4)) == tasks


def test_ranges_of_one_partition_are_read_by_one_task_in_their_order():
    """Two generations of a channel have written the partition: rows in flight, and rows behind them."""
    wanted = [OffsetRange("a", number, first, first + 10 + first) for first in (0, 20) for number in range(3)]
    for tasks in (shared_by_tasks(wanted, cores) for cores in (1, 2, 6)):
        assert sorted((each for task in tasks for each in task), key=wanted.index) == wanted
        for task in tasks:
            assert [each.start for each in task] == [0, 20] * (len(task) // 2)


@given(st.lists(st.integers(1, 50_000), min_size=1, max_size=40), st.integers(1, 8))
def test_every_range_is_read_once_and_no_task_has_much_more_than_its_share(rows: list[int], cores: int):
    wanted = [OffsetRange("a", number, 0, each) for number, each in enumerate(rows)]
    tasks = shared_by_tasks(wanted, cores)
    assert sorted((each for task in tasks for each in task), key=lambda each: each.partition) == wanted
    assert max(sum(each.end for each in task) for task in tasks) <= sum(rows) / len(tasks) + max(rows)


# --- the beginning -----------------------------------------------------------------------------------------


def test_a_partition_that_a_group_never_read_begins_at_its_oldest_record():
    cluster = Cluster({("a", 0): 50, ("a", 1): 60}, {("a", 1): 7}, groups={"g": {("a", 0): 20, ("b", 0): 3}})
    assert begin_of(cluster) == {("a", 0): 20, ("a", 1): 7}


@pytest.mark.parametrize("committed", [4, 51])
def test_a_group_that_stands_where_no_record_is_kept_is_refused_with_the_numbers(committed: int):
    cluster = Cluster({("a", 0): 50}, {("a", 0): 5}, groups={"g": {("a", 0): committed}})
    with pytest.raises(TidegateError, match=f"a start between a-0 5 and a-0 50(.|\n)*a-0 {committed}"):
        begin_of(cluster)


def test_a_group_that_stands_before_what_is_kept_begins_behind_it_when_that_is_asked_for():
    cluster = Cluster({A0: 50, A1: 9}, {A0: 5}, groups={"g": {A0: 4}})
    assert begin_of(cluster, LostRecords.SKIP) == {A0: 5, A1: 0}
    cluster.groups["g"][A1] = 10
    with pytest.raises(TidegateError, match="a-1 10"):
        begin_of(cluster, LostRecords.SKIP)


def begin_of(cluster: Cluster, lost: LostRecords = LostRecords.REFUSE) -> OffsetOf:
    reading = TopicReading(
        clients=Clients("localhost:1", {}), selection=TopicSelection(("a",)), where="here", group="g", lost=lost
    )
    return resolve(reading, cluster, "group", None).start.next
