"""The barriers of one checkpoint: what keeps a query from taking part, and how far a reader may go meanwhile."""

from __future__ import annotations

from tidegate.core.barriers import Alignment, Barriers, GraphQuery, held_at
from tidegate.core.channel_parts import LiveParts

WRITER = GraphQuery("write", {}, ("numbers",))
READER = GraphQuery("add", {"numbers-in": "numbers"}, ())


def after_the_writer(graph: list[GraphQuery], end: dict[str, int], since: int = 0) -> Barriers:
    """The writer has taken part: its channel ends here."""
    barriers = Barriers(graph, live=LiveParts(since))
    barriers.take_part("write", {"numbers": end})
    return barriers


def test_a_query_that_reads_no_channel_takes_part_at_once() -> None:
    barriers = Barriers([WRITER, READER])
    assert barriers.waits_for("write", {}) == {}
    assert not barriers.has_taken_part("write")


def test_a_reader_waits_for_its_writer_and_then_for_the_rows_up_to_the_barrier() -> None:
    barriers = Barriers([WRITER, READER])
    assert barriers.waits_for("add", {"numbers-in": [{"numbers.1.0": 4}]}) == {"numbers": None}
    assert barriers.at("numbers") is None
    barriers.take_part("write", {"numbers": {"numbers.1.0": 6}})
    assert barriers.at("numbers") == {"numbers.1.0": 6}
    assert barriers.waits_for("add", {"numbers-in": [{"numbers.1.0": 4}]}) == {"numbers": 2}
    assert barriers.waits_for("add", {"numbers-in": [{"numbers.1.0": 6}]}) == {}
    assert barriers.waits_for("add", {}) == {"numbers": 6}, "it has not begun to read the channel"


def test_a_reader_behind_the_barrier_does_not_take_part() -> None:
    barriers = after_the_writer([WRITER, READER], {"numbers.1.0": 6})
    assert barriers.waits_for("add", {"numbers-in": [{"numbers.1.0": 8}]}) == {"numbers": -2}


def test_a_checkpoint_is_complete_when_every_query_has_taken_part() -> None:
    barriers = after_the_writer([WRITER, READER], {"numbers.1.0": 6})
    assert (barriers.has_taken_part("write"), barriers.is_complete) == (True, False)
    barriers.take_part("add", {})
    assert barriers.is_complete


def test_a_reader_of_two_channels_stands_at_both_barriers() -> None:
    other = GraphQuery("list", {}, ("words",))
    both = GraphQuery("add", {"numbers-in": "numbers", "words-in": "words"}, ())
    barriers = after_the_writer([WRITER, other, both], {"numbers.1.0": 6})
    stands = {"numbers-in": [{"numbers.1.0": 6}], "words-in": [{"words.1.0": 2}]}
    assert barriers.waits_for("add", stands) == {"words": None}
    barriers.take_part("list", {"words": {"words.1.0": 3}})
    assert barriers.waits_for("add", stands) == {"words": 1}
    assert barriers.waits_for("add", {**stands, "words-in": [{"words.1.0": 3}]}) == {}


def test_two_sources_of_one_channel_both_stand_at_its_barrier() -> None:
    reader = GraphQuery("add", {"fast-in": "numbers", "slow-in": "numbers"}, ())
    barriers = after_the_writer([WRITER, reader], {"numbers.1.0": 6})
    for fast, slow in ((6, 2), (2, 6), (5, 2)):
        stands = {"fast-in": [{"numbers.1.0": fast}], "slow-in": [{"numbers.1.0": slow}]}
        assert barriers.waits_for("add", stands) == {"numbers": 4}


def test_a_source_that_a_query_reads_twice_stands_at_the_barrier_at_both_places() -> None:
    """Spark asks for the end of the channel at each place, and rows may come between."""
    barriers = after_the_writer([WRITER, READER], {"numbers.1.0": 6})
    for places in ((4, 6), (6, 4)):
        assert barriers.waits_for("add", {"numbers-in": [{"numbers.1.0": at} for at in places]}) == {"numbers": 2}
    assert barriers.waits_for("add", {"numbers-in": [{"numbers.1.0": 6}] * 2}) == {}


def test_a_channel_without_rows_holds_nobody() -> None:
    barriers = after_the_writer([WRITER, READER], {})
    assert barriers.waits_for("add", {"numbers-in": [{"numbers.1.0": 0}]}) == {}
    assert held_at({}, {"numbers.1.0": 2}) == {}, "its first rows are behind the barrier"


def test_rows_that_a_restore_has_given_up_keep_nothing_waiting() -> None:
    """The reader stands in the part of generation 1 for ever."""
    end = {"numbers.1.0": 6, "numbers.2.0": 3}
    stands = {"numbers-in": [{"numbers.1.0": 4, "numbers.2.0": 3}]}
    assert after_the_writer([WRITER, READER], end, since=2).waits_for("add", stands) == {}
    assert after_the_writer([WRITER, READER], end, since=1).waits_for("add", stands) == {"numbers": 2}


def test_at_least_once_a_reader_takes_part_when_it_is_past_all_barriers() -> None:
    barriers = Barriers([WRITER, READER], Alignment.AT_LEAST_ONCE)
    barriers.take_part("write", {"numbers": {"numbers.1.0": 6}})
    stands = [barriers.waits_for("add", {"numbers-in": [{"numbers.1.0": at}]}) for at in (5, 6, 9)]
    assert stands == [{"numbers": 1}, {}, {}]


def test_unaligned_a_query_takes_part_at_once_wherever_it_stands() -> None:
    barriers = Barriers([WRITER, READER], Alignment.UNALIGNED)
    assert barriers.waits_for("add", {"numbers-in": [{"numbers.1.0": 1}]}) == {}
    assert barriers.waits_for("add", {"numbers-in": [{}]}) == {"numbers": None}, "a restore would not find its rows"


def test_an_aligned_checkpoint_goes_on_as_an_unaligned_one() -> None:
    barriers = Barriers([WRITER, READER])
    barriers.take_part("write", {"numbers": {"numbers.1.0": 6}})
    stands = {"numbers-in": [{"numbers.1.0": 1}]}
    assert barriers.waits_for("add", stands) == {"numbers": 5}
    barriers.overtake()
    assert barriers.waits_for("add", stands) == {}
    assert barriers.alignment is Alignment.UNALIGNED


def test_at_least_once_only_readers_of_several_channels_pass_a_barrier() -> None:
    twice = GraphQuery("twice", {"numbers-in": "numbers", "numbers-again": "numbers"}, ())
    both = GraphQuery("both", {"numbers-in": "numbers", "words-in": "words"}, ())
    graph = [WRITER, READER, twice, both]
    assert Barriers(graph, Alignment.AT_LEAST_ONCE).passing("numbers") == {"both"}
    assert Barriers(graph).passing("numbers") == set()


def test_at_least_once_no_checkpoint_overtakes_rows() -> None:
    barriers = Barriers([WRITER, READER], Alignment.AT_LEAST_ONCE)
    barriers.overtake()
    assert barriers.alignment is Alignment.AT_LEAST_ONCE


def test_a_restore_reads_the_rows_in_flight_and_skips_what_was_written_behind_them() -> None:
    live = LiveParts(since=2, until={"numbers.1.0": 6})
    ends = {"numbers.1.0": 9, "numbers.2.0": 3}
    assert live.of(ends) == {"numbers.1.0": 6, "numbers.2.0": 3}
    assert live.unread({"numbers.1.0": 4}, ends) == 5
    assert live.unread({"numbers.1.0": 6, "numbers.2.0": 3}, ends) == 0
    assert LiveParts(since=2).unread({"numbers.1.0": 4}, ends) == 3
    assert live.unread({}, ends) == 3, "a source that is new begins in the new generation"


def test_an_epoch_ends_at_the_barrier_at_the_latest() -> None:
    barrier = {"numbers.1.0": 6, "numbers.2.0": 3}
    assert held_at(barrier, {"numbers.1.0": 6, "numbers.2.0": 9, "numbers.3.0": 1}) == barrier
    assert held_at(barrier, {"numbers.1.0": 4}) == {"numbers.1.0": 4}
