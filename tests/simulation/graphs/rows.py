"""Rows by their values. A row tells where it comes from, and which queries have passed it on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tests.simulation.graphs.graph import Node, writers
from tidegate.core.barriers import Alignment

Row = tuple[object, ...]
Rows = list[Row]
State = Sequence[Sequence[Rows]]
"""What a query has read: by epoch, and by place in its plan."""


def passed_on(query: str, row: Row) -> Row:
    """The row that a query makes of a row."""
    return (query, *row)


def goes_to(channel: str, row: Row) -> bool:
    """Every row goes to some channels; to others two in three, so that some epochs put no row there."""
    number = row[-1]
    return not channel.endswith(("1", "b")) or (isinstance(number, int) and number % 3 != 1)


def key_of(row: Row) -> int:
    """The key of a row, where a channel has keys."""
    number = row[-1]
    assert isinstance(number, int)
    return number % 5


def written(writer: str, channel: str, state: State) -> Rows:
    """What a query in this state has written to a channel."""
    found = [passed_on(writer, row) for epoch in state for place in epoch for row in place]
    return [row for row in found if goes_to(channel, row)]


def wrong(
    nodes: Sequence[Node],
    states: Mapping[str, State],
    alignment: Alignment = Alignment.ALIGNED,
    in_flight: Mapping[tuple[str, int], Rows] = {},
    keyed: Collection[str] = (),
) -> list[str]:
    """What is wrong with the states of all queries as one cut. `in_flight`: by query and place in its plan, the rows
    that the checkpoint has beside the states. `keyed`: the channels that keep the order of the rows of each key alone.

    They are right if each query holds a prefix of each outside source, and of each channel, together with what is in
    flight, exactly what its writer has written in its own state, in this order. At-least-once a reader of several
    channels may hold more.
    """
    writer_of, found = writers(nodes), list[str]()
    for node in nodes:
        for place, source in enumerate(node.sources):
            rows = [row for epoch in states[node.uid] for row in epoch[place]]
            rows += in_flight.get((node.uid, place), [])
            channel = node.reads.get(source)
            due: Rows = [(source, number) for number in range(len(rows))]
            if channel is not None:
                due = written(writer_of[channel], channel, states[writer_of[channel]])
            may_repeat = alignment is Alignment.AT_LEAST_ONCE and len(set(node.reads.values())) > 1
            for some, some_due in _by_key(rows, due) if channel in keyed else [(rows, due)]:
                if (some[: len(some_due)] if may_repeat else some) != some_due:
                    found.append(f"query {node.uid}, source {source}: {_difference(some, some_due)}")
    return found


def _by_key(rows: Rows, due: Rows) -> list[tuple[Rows, Rows]]:
    """The rows of each key, and those that are due."""
    return [
        ([row for row in rows if key_of(row) == key], [row for row in due if key_of(row) == key])
        for key in sorted({key_of(row) for row in [*rows, *due]})
    ]


def _difference(rows: Rows, due: Rows) -> str:
    lacking, surplus = [row for row in due if row not in rows], [row for row in rows if row not in due]
    return f"{len(rows)} rows instead of {len(due)}; not there: {lacking[:3]}; not of the cut: {surplus[:3]}"
