"""Graphs of queries, drawn."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


class Flow(Enum):
    """How the rows of an outside source come."""

    BUSY = "busy"
    IDLE = "idle"
    ENDED = "ended"


@dataclass(slots=True)
class Node:
    """A query. `sources`: by their place in Spark's plan. `reads`: the channels of those that read one. `flows`: of the
    others.
    """

    uid: str
    sources: list[str] = field(default_factory=list[str])
    reads: dict[str, str] = field(default_factory=dict[str, str])
    flows: dict[str, Flow] = field(default_factory=dict[str, Flow])
    writes: list[str] = field(default_factory=list[str])


Shape = list[tuple[int, str, int]]
"""Its channels: the writer, the name, a reader."""


def drawn(rng: random.Random) -> list[Node]:
    """A graph of two to five queries, in the order of the program."""
    shape = rng.choice((_chain, _fan_out, _join, _diamond, _random))(rng)
    nodes = [Node(f"q{number}") for number in range(max(reader for *_, reader in shape) + 1)]
    for writer, channel, reader in shape:
        if channel not in nodes[writer].writes:
            nodes[writer].writes.append(channel)
        _read(rng, nodes[reader], channel)
    for node in nodes:
        if not node.reads or rng.random() < 0.25:
            source = f"{node.uid}-outside"
            node.sources.append(source)
            node.flows[source] = rng.choices(list(Flow), (4, 2, 1))[0]
    return nodes


def writers(nodes: Sequence[Node]) -> Mapping[str, str]:
    """The query that writes each channel."""
    return {channel: node.uid for node in nodes for channel in node.writes}


def _read(rng: random.Random, node: Node, channel: str) -> None:
    source = f"{node.uid}-{channel}"
    node.sources.append(source)
    node.reads[source] = channel
    twice = rng.random()
    if twice < 0.15:
        node.sources.append(source)  # the query joins the source with itself
    elif twice < 0.25:
        node.sources.append(f"{source}-again")
        node.reads[f"{source}-again"] = channel


def _chain(rng: random.Random) -> Shape:
    return [(number, f"c{number}", number + 1) for number in range(rng.randint(1, 4))]


def _fan_out(rng: random.Random) -> Shape:
    apart = rng.random() < 0.4
    return [(0, f"c{reader if apart else 0}", reader) for reader in range(1, rng.randint(3, 5))]


def _join(rng: random.Random) -> Shape:
    last = rng.randint(2, 3)
    return [(writer, f"c{writer}", last) for writer in range(last)]


def _diamond(rng: random.Random) -> Shape:
    second = rng.choice(("c0", "c3"))
    behind: Shape = [(3, "c4", 4)] if rng.random() < 0.4 else []
    return [(0, "c0", 1), (0, second, 2), (1, "c1", 3), (2, "c2", 3), *behind]


def _random(rng: random.Random) -> Shape:
    count = rng.randint(3, 5)
    found: set[tuple[int, str, int]] = {(0, "c0", count - 1)}
    for reader in range(1, count):
        for _ in range(rng.randint(0, 2)):
            writer = rng.randrange(reader)
            found.add((writer, f"c{writer}{rng.choice(('', '', '-b'))}", reader))
    return sorted(found)
