"""The graph of a job: what its queries read and write. A channel joins two queries, and is one node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec
from msgspec.structs import replace

from tidegate.operate.sinks import DescribedSink
from tidegate.operate.sources import DescribedSource
from tidegate.operate.status import QueryView


class NodeKind(Enum):
    """What a node of a graph stands for."""

    SOURCE = "source"
    QUERY = "query"
    CHANNEL = "channel"
    SINK = "sink"


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a job's graph. `told`: what it is, in a few words. `query`: the query that it belongs to; None for a
    channel, which belongs to several, and for a source that several read. Figures are None where they are not known.

    `rows_per_second`: rows that the query makes visible, for its sinks and channels, too; None for a source. `lag`: of
    the reader; of several, each with its name. `epoch`: the newest done one of the query; of several readers, the
    oldest of these. `behind_barrier`: while a checkpoint across the queries is under way, True where its barrier has
    passed, at a channel: where it has been written; None at sources and sinks, and if none is under way.
    """

    id: str
    kind: NodeKind
    name: str
    told: str
    query: str | None = None
    rows_per_second: float | None = None
    lag: str | None = None
    epoch: int | None = None
    behind_barrier: bool | None = None


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True, rename={"begin": "from", "end": "to"}):
    """Rows go from one node to another one. By the ids of the nodes."""

    begin: str
    end: str


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """Sources, queries, channels and sinks of a job, and what goes between them."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]


def graph_of(queries: Sequence[QueryView], sources: Iterable[DescribedSource], sinks: Iterable[DescribedSink]) -> Graph:
    """The nodes and edges of a job. A source or a sink that no start has described is drawn by its uid alone."""
    described = {each.uid: each for each in sources}
    targets = {(each.query, each.uid): each for each in sinks}
    read = {uid: channel for uid, each in described.items() if (channel := _channel(each.target))}
    readers: dict[str, list[QueryView]] = {}
    for query in queries:
        for uid in query.sources:
            readers.setdefault(_read_id(uid, read), []).append(query)
    nodes: dict[str, GraphNode] = {}
    edges: list[GraphEdge] = []
    for query in queries:
        node = _query(query)
        for uid in query.sources:
            begin = _source(uid, described.get(uid), read, readers)
            nodes[begin.id] = _read(begin, nodes.get(begin.id))
            edges.append(GraphEdge(begin=begin.id, end=node.id))
        nodes[node.id] = node
        for uid in query.sinks:
            end = _sink(query, uid, targets.get((query.uid, uid)))
            nodes[end.id] = _written(end, nodes.get(end.id))
            edges.append(GraphEdge(begin=node.id, end=end.id))
    return Graph(nodes=tuple(nodes.values()), edges=tuple(edges))


def _read(node: GraphNode, written: GraphNode | None) -> GraphNode:
    """A source, or a channel at its reading end: its writer knows the rest."""
    return node if written is None else replace(written, lag=node.lag)


def _written(channel: GraphNode, read: GraphNode | None) -> GraphNode:
    """A sink, or a channel at its writing end: its reading end alone knows the lag."""
    return channel if read is None else replace(channel, lag=read.lag)


def _query(query: QueryView) -> GraphNode:
    return GraphNode(
        id=f"query:{query.uid}",
        kind=NodeKind.QUERY,
        name=query.uid,
        told="query",
        query=query.uid,
        rows_per_second=None if query.beat is None else query.beat.rows_per_second,
        lag=_lag(query),
        epoch=_epoch(query),
        behind_barrier=_behind_barrier(query),
    )


def _source(
    uid: str, described: DescribedSource | None, read: Mapping[str, str], readers: Mapping[str, Sequence[QueryView]]
) -> GraphNode:
    node = _read_id(uid, read)
    mine = readers[node]
    lags = {each.uid: lag for each in mine if (lag := _lag(each)) is not None}
    return GraphNode(
        id=node,
        kind=NodeKind.CHANNEL if uid in read else NodeKind.SOURCE,
        name=uid,
        told=uid if described is None else described.told,
        query=mine[0].uid if len(mine) == 1 and uid not in read else None,
        lag=", ".join(lags.values() if len(mine) == 1 else (f"{each}: {lag}" for each, lag in lags.items())) or None,
        epoch=min(map(_epoch, mine)),
    )


def _read_id(uid: str, read: Mapping[str, str]) -> str:
    return f"channel:{read[uid]}" if uid in read else f"source:{uid}"


def _sink(query: QueryView, uid: str, described: DescribedSink | None) -> GraphNode:
    channel = "" if described is None else _channel(described.target)
    return GraphNode(
        id=f"channel:{channel}" if channel else f"sink:{query.uid}/{uid}",
        kind=NodeKind.CHANNEL if channel else NodeKind.SINK,
        name=uid,
        told=uid if described is None else described.told,
        query=None if channel else query.uid,
        rows_per_second=None if query.beat is None else query.beat.rows_per_second,
        epoch=_epoch(query),
        behind_barrier=_behind_barrier(query) if channel else None,
    )


def _epoch(query: QueryView) -> int:
    return query.finished if query.beat is None else max(query.beat.finished, query.finished)


def _lag(query: QueryView) -> str | None:
    return None if query.beat is None else query.beat.lag


def _behind_barrier(query: QueryView) -> bool | None:
    return None if query.beat is None else query.beat.behind_barrier


def _channel(target: Mapping[str, Any]) -> str:
    """What names the channel that is described, at its writing end and at its reading end; empty for what is no
    channel: the folder of an embedded one, the topic of one over Kafka."""
    match target:
        case {"type": "channel", "folder": str(folder)}:
            return folder
        case {"type": "kafka-channel", "topic": str(topic)} | {"type": "kafka-channel", "topics": [str(topic)]}:
            return topic
        case _:
            return ""
