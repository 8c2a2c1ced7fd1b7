"""The graph of a job: what its queries read and write. A channel joins two queries, and is one node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

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
    channel, which belongs to several. Figures are None where they are not known."""

    id: str
    kind: NodeKind
    name: str
    told: str
    query: str | None = None
    rows_per_second: float | None = None
    lag: str | None = None
    epoch: int | None = None


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
    nodes: dict[str, GraphNode] = {}
    edges: list[GraphEdge] = []
    for query in queries:
        node = _query(query)
        for uid in query.sources:
            begin = _source(query, uid, described.get(uid), read)
            _put(nodes, begin)
            edges.append(GraphEdge(begin=begin.id, end=node.id))
        _put(nodes, node)
        for uid in query.sinks:
            end = _sink(query.uid, uid, targets.get((query.uid, uid)))
            _put(nodes, end)
            edges.append(GraphEdge(begin=node.id, end=end.id))
    return Graph(nodes=tuple(nodes.values()), edges=tuple(edges))


def _put(nodes: dict[str, GraphNode], node: GraphNode) -> None:
    """A channel is met twice: its writer knows more about it than its reader."""
    if node.id not in nodes or node.query is None:
        nodes[node.id] = node


def _query(query: QueryView) -> GraphNode:
    beat = query.beat
    return GraphNode(
        id=f"query:{query.uid}",
        kind=NodeKind.QUERY,
        name=query.uid,
        told="query",
        query=query.uid,
        rows_per_second=None if beat is None else beat.rows_per_second,
        lag=None if beat is None else beat.lag,
        epoch=query.finished if beat is None else max(beat.finished, query.finished),
    )


def _source(query: QueryView, uid: str, described: DescribedSource | None, read: Mapping[str, str]) -> GraphNode:
    lag = None if query.beat is None else query.beat.lag
    told = uid if described is None else described.told
    if uid in read:
        return GraphNode(
            id=f"channel:{read[uid]}", kind=NodeKind.CHANNEL, name=uid, told=told, query=query.uid, lag=lag
        )
    return GraphNode(id=f"source:{uid}", kind=NodeKind.SOURCE, name=uid, told=told, query=query.uid, lag=lag)


def _sink(query: str, uid: str, described: DescribedSink | None) -> GraphNode:
    channel = "" if described is None else _channel(described.target)
    told = uid if described is None else described.told
    if channel:
        return GraphNode(id=f"channel:{channel}", kind=NodeKind.CHANNEL, name=uid, told=told)
    return GraphNode(id=f"sink:{query}/{uid}", kind=NodeKind.SINK, name=uid, told=told, query=query)


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
