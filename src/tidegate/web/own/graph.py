"""The graph of a job: what its queries read and write. A channel joins two queries, and is one node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidegate.operate import DescribedSink, DescribedSource, QueryView
from tidegate.web.shapes import Graph, GraphEdge, GraphNode

_CHANNELS = frozenset({"channel", "kafka-channel"})


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
        kind="query",
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
        return GraphNode(id=f"channel:{read[uid]}", kind="channel", name=uid, told=told, query=query.uid, lag=lag)
    return GraphNode(id=f"source:{uid}", kind="source", name=uid, told=told, query=query.uid, lag=lag)


def _sink(query: str, uid: str, described: DescribedSink | None) -> GraphNode:
    channel = "" if described is None else _channel(described.target)
    told = uid if described is None else described.told
    if channel:
        return GraphNode(id=f"channel:{channel}", kind="channel", name=uid, told=told)
    return GraphNode(id=f"sink:{query}/{uid}", kind="sink", name=uid, told=told, query=query)


def _channel(target: Mapping[str, Any]) -> str:
    """The folder of the channel that is described; empty for what is no channel."""
    return str(target.get("folder", "")) if target.get("type") in _CHANNELS else ""
