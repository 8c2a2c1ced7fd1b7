"""The graph of a job: a channel is one node between its writer and its readers."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.core.levels import Level
from tidegate.operate import DescribedSink, DescribedSource, NodeKind, QueryView, graph_of


def query(uid: str, sources: tuple[str, ...], sinks: tuple[str, ...]) -> QueryView:
    return QueryView(uid=uid, generation=1, sources=sources, sinks=sinks, finished=7, beat=None)


def source(uid: str, **target: Any) -> DescribedSource:
    return DescribedSource(uid=uid, told=f"told {uid}", target=target)


def sink(of: str, uid: str, **target: Any) -> DescribedSink:
    return DescribedSink(query=of, uid=uid, level=Level.EXACTLY_ONCE, keeps_evidence=True, target=target)


EMBEDDED = {"type": "channel", "folder": "f/moved"}


@pytest.mark.parametrize(
    ("name", "writing", "reading"),
    [
        pytest.param("f/moved", EMBEDDED, EMBEDDED, id="embedded"),
        pytest.param(
            "shop-moved",
            {"type": "kafka-channel", "topic": "shop-moved", "folder": "f/moved"},
            {"type": "kafka-channel", "topics": ["shop-moved"]},
            id="over Kafka",
        ),
    ],
)
def test_a_channel_joins_its_writer_and_its_readers(
    name: str, writing: dict[str, Any], reading: dict[str, Any]
) -> None:
    queries = [
        query("split", ("orders",), ("moved",)),
        query("even", ("moved-even",), ("out",)),
        query("odd", ("moved-odd",), ("out",)),
    ]
    sources = [
        source("orders", type="files"),
        source("moved-even", **reading),
        source("moved-odd", **reading),
    ]
    sinks = [sink("split", "moved", **writing), sink("even", "out", type="other", what="Console")]
    graph = graph_of(queries, sources, sinks)
    edges = {(edge.begin, edge.end) for edge in graph.edges}
    assert edges == {
        ("source:orders", "query:split"),
        ("query:split", f"channel:{name}"),
        (f"channel:{name}", "query:even"),
        (f"channel:{name}", "query:odd"),
        ("query:even", "sink:even/out"),
        ("query:odd", "sink:odd/out"),
    }
    channel = next(node for node in graph.nodes if node.kind is NodeKind.CHANNEL)
    assert channel.name == "moved", "it has the name that its writer gives it"
    assert {edge for pair in edges for edge in pair} == {node.id for node in graph.nodes}


def test_a_reader_that_comes_before_the_writer_does_not_name_the_channel() -> None:
    queries = [query("reads", ("in",), ("out",)), query("writes", ("orders",), ("ch",))]
    graph = graph_of(
        queries, [source("in", type="channel", folder="f/ch")], [sink("writes", "ch", type="channel", folder="f/ch")]
    )
    assert [node.name for node in graph.nodes if node.kind is NodeKind.CHANNEL] == ["ch"]


def test_what_no_start_has_described_is_drawn_by_its_uid() -> None:
    graph = graph_of([query("counts", ("words",), ("table",))], [], [])
    assert [(node.kind.value, node.name, node.told) for node in graph.nodes] == [
        ("source", "words", "words"),
        ("query", "counts", "query"),
        ("sink", "table", "table"),
    ]
    assert next(node for node in graph.nodes if node.kind is NodeKind.QUERY).epoch == 7
