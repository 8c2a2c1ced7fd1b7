"""The graph of a job: a channel is one node between its writer and its readers."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.core.levels import Level
from tidegate.operate import DescribedSink, DescribedSource, NodeKind, QueryView, graph_of
from tidegate.operate.beat import QueryBeat


def query(
    uid: str, sources: tuple[str, ...], sinks: tuple[str, ...], beat: QueryBeat | None = None, finished: int = 7
) -> QueryView:
    return QueryView(uid=uid, generation=1, sources=sources, sinks=sinks, finished=finished, beat=beat)


def beat(uid: str, *, rows_per_second: float, lag: str, behind_barrier: bool | None) -> QueryBeat:
    return QueryBeat(
        uid=uid, run=1, epoch=8, finished=7, rows=90, rows_per_second=rows_per_second, lag=lag,
        behind_barrier=behind_barrier,
    )  # fmt: skip


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


def test_each_node_has_the_figures_of_its_query_and_the_place_of_the_barrier() -> None:
    split, even, odd = (
        beat("split", rows_per_second=40.0, lag="9 rows", behind_barrier=True),
        beat("even", rows_per_second=2.0, lag="3 rows", behind_barrier=False),
        beat("odd", rows_per_second=1.0, lag="4 rows", behind_barrier=False),
    )
    queries = [
        query("split", ("orders",), ("moved",), split),
        query("even", ("moved-even",), ("out",), even, 5),
        query("odd", ("moved-odd", "orders"), ("out",), odd),
    ]
    sources = [source("orders", type="files"), source("moved-even", **EMBEDDED), source("moved-odd", **EMBEDDED)]
    graph = graph_of(queries, sources, [sink("split", "moved", **EMBEDDED)])
    assert {node.name: (node.rows_per_second, node.lag, node.epoch, node.behind_barrier) for node in graph.nodes} == {
        "orders": (None, "split: 9 rows, odd: 4 rows", 7, None),
        "split": (40.0, "9 rows", 7, True),
        "moved": (40.0, "even: 3 rows, odd: 4 rows", 7, True),
        "even": (2.0, "3 rows", 7, False),
        "odd": (1.0, "4 rows", 7, False),
        "out": (1.0, None, 7, None),
    }
