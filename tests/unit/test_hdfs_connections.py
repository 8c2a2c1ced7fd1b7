"""Which connection a call to HDFS gets."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.support.hdfs import write_site
from tidegate.storages.hdfs.configuration import name_nodes_from
from tidegate.storages.hdfs.connections import HdfsConnections


class Connected:
    """Makes no client, and keeps which NameNode each one would ask first."""

    def __init__(self) -> None:
        self.firsts: list[int] = []

    def __call__(self, first: int) -> object:
        self.firsts.append(first)
        return object()


def connections_of(connected: Connected) -> HdfsConnections:
    return HdfsConnections(cast("type", connected))


def test_calls_that_are_given_up_at_the_same_time_pass_over_one_name_node() -> None:
    connections = connections_of(connected := Connected())
    both = [connections.take(), connections.take()]
    for each in both:
        connections.pass_over(each)
    assert connections.take().first == 1
    assert connected.firsts == [0, 0, 1]


def test_no_call_gets_a_connection_that_begins_with_the_silent_name_node() -> None:
    connections = connections_of(Connected())
    idle, running, silent = connections.take(), connections.take(), connections.take()
    connections.give_back(idle)
    connections.pass_over(silent)
    connections.give_back(running)
    assert connections.take().first == 1


def test_a_connection_is_used_again_unless_it_was_left() -> None:
    connections = connections_of(connected := Connected())
    with connections.taken() as first:
        pass
    with connections.taken() as again:
        again.is_left = True
    assert again is first
    assert connections.take() is not first
    assert connected.firsts == [0, 0]


def test_the_name_nodes_of_every_service_are_asked_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_site(tmp_path / "hdfs-site.xml", {"dfs.ha.namenodes.sea": "a,b,c", "dfs.ha.namenodes.bay": "d"})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    found = [name_nodes_from(first) for first in range(4)]
    assert [each["dfs.ha.namenodes.sea"] for each in found] == ["a,b,c", "b,c,a", "c,a,b", "a,b,c"]
    assert {each["dfs.ha.namenodes.bay"] for each in found} == {"d"}
    assert {each["dfs.client.failover.random.order"] for each in found} == {"false"}
