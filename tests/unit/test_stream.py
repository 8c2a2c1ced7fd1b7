"""What is known of a Spark query whose JVM is gone."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters

from tidegate.spark.stream import RunningStream, is_gone


@pytest.fixture
def jvm() -> Iterator[Any]:
    """As pyspark has it, behind a port at which nobody listens any more: each call makes a new connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    of_python = PythonParameters(port=0, daemonize=True, daemonize_connections=True)
    gateway = cast("Any", ClientServer(JavaParameters(port=port), of_python))
    yield gateway
    gateway.shutdown_callback_server()


def test_the_thread_of_a_query_has_ended_when_its_jvm_is_gone(jvm: Any):
    stream = cast("Any", RunningStream.__new__(RunningStream))
    stream._execution = jvm.entry_point
    with pytest.raises(ConnectionRefusedError):
        jvm.entry_point.queryExecutionThread()
    assert stream.has_ended()
    assert stream.await_end(timeout_seconds=0)


def test_a_jvm_at_whose_port_nobody_listens_is_gone(jvm: Any):
    assert is_gone(jvm.jvm)
