"""Draws the graph of a job as SVG, without a program of others: sources at the left, sinks at the right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tidegate.operate.graph import Graph, GraphEdge, GraphNode, NodeKind

_WIDTH, _HEIGHT, _GAP, _BELOW, _MARGIN = 168, 46, 56, 18, 8
"""Of a node, between two columns, between two rows, and around all: in pixels."""
_LETTERS = 23

_CORNERS: Mapping[NodeKind, int] = {NodeKind.SOURCE: 22, NodeKind.QUERY: 4, NodeKind.CHANNEL: 12, NodeKind.SINK: 22}
"""The radius of a node's corners tells its kind beside its text."""


@dataclass(frozen=True, slots=True)
class _NodePlace:
    column: int
    row: int

    @property
    def x(self) -> int:
        return _MARGIN + self.column * (_WIDTH + _GAP)

    @property
    def y(self) -> int:
        return _MARGIN + self.row * (_HEIGHT + _BELOW)


def svg_of(graph: Graph) -> str:
    """The picture of a graph. Colours are those of the text around it, so it fits light and dark."""
    if not graph.nodes:
        return ""
    places = _places(graph)
    width = max(place.x for place in places.values()) + _WIDTH + _MARGIN
    height = max(place.y for place in places.values()) + _HEIGHT + _MARGIN
    edges = "".join(_edge(edge, places) for edge in graph.edges)
    nodes = "".join(_node(node, places[node.id]) for node in graph.nodes)
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        f' aria-label="{escape(_told(graph))}" fill="none" stroke="currentColor" font-size="12"'
        f' font-family="ui-sans-serif, system-ui, sans-serif">{edges}{nodes}</svg>'
    )


def _places(graph: Graph) -> dict[str, _NodePlace]:
    """Each node stands in the column behind the last of those that it gets rows from."""
    columns = _columns(graph.nodes, graph.edges)
    rows: defaultdict[int, int] = defaultdict(int)
    places: dict[str, _NodePlace] = {}
    for node in graph.nodes:
        column = columns[node.id]
        places[node.id] = _NodePlace(column, rows[column])
        rows[column] += 1
    return places


def _columns(nodes: Sequence[GraphNode], edges: Sequence[GraphEdge]) -> dict[str, int]:
    """The longest way to each node. A circle ends where each node was moved once."""
    columns = {node.id: 0 for node in nodes}
    for _ in nodes:
        moved = False
        for edge in edges:
            if columns[edge.end] <= columns[edge.begin] < len(nodes):
                columns[edge.end], moved = columns[edge.begin] + 1, True
        if not moved:
            break
    return columns


def _edge(edge: GraphEdge, places: Mapping[str, _NodePlace]) -> str:
    begin, end = places[edge.begin], places[edge.end]
    x, y, to_x, to_y = begin.x + _WIDTH, begin.y + _HEIGHT // 2, end.x, end.y + _HEIGHT // 2
    middle = (x + to_x) // 2
    return (
        f'<path d="M{x} {y} C{middle} {y} {middle} {to_y} {to_x - 6} {to_y}" opacity=".5"/>'
        f'<path d="M{to_x - 7} {to_y - 4} l7 4 l-7 4" opacity=".5"/>'
    )


def _node(node: GraphNode, place: _NodePlace) -> str:
    x, middle = place.x, place.x + _WIDTH // 2
    return (
        f"<g><title>{escape(f'{node.kind.value} {node.name}: {node.told}')}</title>"
        f'<rect x="{x}" y="{place.y}" width="{_WIDTH}" height="{_HEIGHT}" rx="{_CORNERS[node.kind]}"'
        f' stroke-dasharray="{"4 3" if node.kind is NodeKind.CHANNEL else "none"}"/>'
        f'<g fill="currentColor" stroke="none" text-anchor="middle">'
        f'<text x="{middle}" y="{place.y + 19}" font-weight="600">{escape(_short(node.name))}</text>'
        f'<text x="{middle}" y="{place.y + 36}" font-size="11" opacity=".75">{escape(_short(_figures(node)))}</text>'
        f"</g></g>"
    )


def _figures(node: GraphNode) -> str:
    if node.kind is not NodeKind.QUERY:
        return node.kind.value
    epoch = "no epoch yet" if node.epoch is None or node.epoch < 0 else f"epoch {node.epoch}"
    return epoch if not node.rows_per_second else f"{epoch}, {node.rows_per_second:,.0f} rows/s"


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def _told(graph: Graph) -> str:
    """The graph for a reader that sees no picture."""
    names = {node.id: f"{node.kind.value} {node.name}" for node in graph.nodes}
    return "; ".join(f"{names[edge.begin]} to {names[edge.end]}" for edge in graph.edges)
