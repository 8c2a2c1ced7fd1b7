"""What a notebook shows of a job: whole in itself, and harmless whatever a job is called."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tidegate.core.errors import TidegateError
from tidegate.operate import (
    DoneCheckpoint,
    Failure,
    Graph,
    GraphEdge,
    GraphNode,
    JobInfo,
    JobView,
    NodeKind,
    QueryView,
    State,
    graph_of,
)
from tidegate.operate.notebook import html_of, html_of_declaration
from tidegate.operate.notebook_view import show
from tidegate.operate.picture import svg_of

HOSTILE = '<script>alert("1")</script>&'


def query(uid: str, *, sources: tuple[str, ...] = ("in",), sinks: tuple[str, ...] = ("out",)) -> QueryView:
    return QueryView(uid=uid, generation=1, sources=sources, sinks=sinks, finished=41, beat=None)


def shown(job: str = "counts", problem: str = "") -> str:
    view = JobView(name=job, folder="f", state=State.FAILED, job_id="1c0ffee5", beat=None, problem=problem)
    queries = (query("words"),)
    info = JobInfo(job=view, queries=queries, retained=(), drained_at=None)
    epochs = tuple(
        DoneCheckpoint(query="words", epoch=number, run=1, at=1.0e9, duration_ms=12.0, rows=1_000)
        for number in range(41, 0, -1)
    )
    failure = Failure(at=1.0e9, code="TG-X", what="it broke", where="w", remedy="r", restart_in_seconds=1.5)
    return html_of(info, graph_of(queries, [], []), epochs[:10], [failure])


def test_a_job_shows_state_graph_epochs_and_failures() -> None:
    html = shown(problem="its disk is away")
    for text in ("counts", "FAILED", "its disk is away", "words", "41", "1,000", "restart in 1.5 s"):
        assert text in html
    assert html.count("<tr>") == 2 + 1 + 10, "heads, one query, ten epochs"


def test_a_hostile_name_is_only_text() -> None:
    html = shown(HOSTILE, problem=HOSTILE) + html_of_declaration(HOSTILE, graph_of([query(HOSTILE)], [], []))
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 4


def test_nothing_is_fetched_and_nothing_runs() -> None:
    assert not re.search(r"(?:src|href|on\w+)=|url\(|http", shown())


def test_the_picture_is_xml_and_names_every_node() -> None:
    nodes = tuple(GraphNode(id=name, kind=NodeKind.QUERY, name=name, told=HOSTILE) for name in ("a", "b", "c"))
    edges = (GraphEdge(begin="a", end="b"), GraphEdge(begin="b", end="c"), GraphEdge(begin="a", end="c"))
    picture = ElementTree.fromstring(svg_of(Graph(nodes=nodes, edges=edges)))
    columns = {
        str(each[0].text).split()[1].rstrip(":"): int(each[1].attrib["x"])
        for each in picture.iter("g")
        if each[0].tag == "title"
    }  # type: ignore[union-attr]
    assert columns["a"] < columns["b"] < columns["c"], "a node stands behind all that it gets rows from"


def test_a_circle_of_channels_is_drawn_and_ends() -> None:
    nodes = tuple(GraphNode(id=name, kind=NodeKind.QUERY, name=name, told="") for name in ("a", "b"))
    assert "<svg" in svg_of(Graph(nodes=nodes, edges=(GraphEdge(begin="a", end="b"), GraphEdge(begin="b", end="a"))))


def test_show_outside_a_notebook_says_what_to_run_instead() -> None:
    with pytest.raises(TidegateError, match="tidegate info counts"):
        show("counts", lambda: "", lambda: True)
