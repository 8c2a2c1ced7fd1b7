"""The chart of the benchmarks: what its bars are made of, and what it looks like."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

from bench.chart import SYSTEMS, Bar, bars_of, drawn
from bench.contests import EVENTS
from bench.figures import Better, Figure, Machine, Results

MACHINE = Machine(system="Linux", cpu="a CPU", cores=2, memory_gib=23.5, file_system="ext4", versions={})
PYFLINK, EXACTLY = SYSTEMS[:2]
_SVG = "{http://www.w3.org/2000/svg}"


def figure(name: str, baseline: float, tidegate: float) -> Figure:
    samples = {"baseline s": [baseline] * 3, "tidegate s": [tidegate] * 3}
    return Figure(name=name, what="", value=1.0, unit="x", better=Better.LOWER, goal=None, samples=samples)


def results(*figures: Figure) -> Mapping[str, Results | None]:
    kept = Results(measured="2026", quick=False, rounds=3, machine=MACHINE, figures=figures)
    return {"flink": kept, "other": None}


def widths(picture: str) -> list[float]:
    """Of the two parts of every bar, in their order."""
    shapes = ElementTree.fromstring(picture).iter(f"{_SVG}rect")
    return [float(shape.attrib["width"]) for shape in shapes][1:]


def texts(picture: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(picture).iter(f"{_SVG}text")]


def test_a_bar_is_the_whole_run_and_what_is_not_net_is_its_start() -> None:
    kept = results(figure("kafka-flink-map", 17.0, 20.0), figure("kafka-flink-map-net", 9.0, 8.0))
    assert bars_of("map", kept) == [Bar(PYFLINK, 17.0, 8.0), Bar(EXACTLY, 20.0, 12.0)]


def test_a_system_without_a_net_figure_has_no_bar() -> None:
    assert bars_of("map", results(figure("kafka-flink-map", 1.74, 2.0))) == []
    assert bars_of("count", results()) == []


def test_all_bars_share_one_axis_with_its_unit() -> None:
    picture = drawn({"map": [Bar(PYFLINK, 20.0, 5.0)], "count": [Bar(EXACTLY, 40.0, 10.0)]})
    start, net, other_start, other_net = widths(picture)
    assert (start + net) * 2 == other_start + other_net
    assert start * 3 == net
    assert {"0", "10", "20", "30", "40", "20.0 s", "40.0 s"} <= set(texts(picture))
    assert any(text.startswith("seconds") for text in texts(picture))


def test_the_picture_names_and_describes_what_it_shows() -> None:
    picture = drawn({"map": [Bar(PYFLINK, 20.0, 5.0)]})
    assert f"<title>{EVENTS:,} events from topic to topic</title>" in picture
    assert re.search(r"<desc>.*PyFlink SQL 20.0 s</desc>", picture)


def test_without_results_the_picture_says_how_to_get_them() -> None:
    assert any("./dev bench flink" in text for text in texts(drawn({})))


def test_no_two_systems_have_one_colour() -> None:
    assert len({system.colour for system in SYSTEMS}) == len(SYSTEMS)
