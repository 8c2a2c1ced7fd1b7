"""Flink's Kafka connector, which PyFlink needs and does not bring."""

from __future__ import annotations

from pathlib import Path

from tidegate.machine.jars import Bundle, fetched

_CONNECTOR = "5.0.0-2.2"


def connector_jar() -> Path:
    """The connector, fetched once."""
    name = "flink-sql-connector-kafka"
    proof = f"{name}-{_CONNECTOR}.jar"
    modules = (("org.apache.flink", name, _CONNECTOR),)
    bundle = Bundle(f"Flink's Kafka connector {_CONNECTOR}", f"flink-connector-{_CONNECTOR}", modules, proof)
    return fetched(bundle, print) / proof
