"""The gate of a channel: it holds a reader at the barrier until it has taken part, or the checkpoint ends."""

from __future__ import annotations

from tidegate.channels.gate import ChannelGate

END = {"numbers.1.0": 9}
BARRIER = {"numbers.1.0": 6}


def test_an_open_gate_holds_nothing() -> None:
    assert ChannelGate().bounded("add", END) == END


def test_a_shut_gate_holds_every_reader_that_has_not_taken_part() -> None:
    gate = ChannelGate()
    gate.shut(BARRIER)
    gate.let_pass("add")
    assert (gate.bounded("add", END), gate.bounded("count", END)) == (END, BARRIER)
    gate.open()
    assert gate.bounded("count", END) == END


def test_the_next_checkpoint_holds_all_readers_again() -> None:
    gate = ChannelGate()
    for barrier in (BARRIER, {"numbers.1.0": 8}):
        gate.shut(barrier)
        assert gate.bounded("add", END) == barrier
        gate.let_pass("add")
        assert gate.bounded("add", END) == END


def test_a_reader_that_takes_part_before_the_barrier_is_set_is_held_at_the_next_one() -> None:
    gate = ChannelGate()
    gate.let_pass("add")
    gate.shut(BARRIER)
    assert gate.bounded("add", END) == BARRIER
