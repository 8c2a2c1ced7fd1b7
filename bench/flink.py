"""PyFlink, which wants other versions of libraries than tidegate and so has an environment of its own."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.testing.kafka.jars import Bundle, cache_folder, fetched

VERSION = "2.2.1"
_CONNECTOR = "5.0.0-2.2"
_PLACE = "TIDEGATE_BENCH_FLINK"
_PACKAGES = "lib/python*/site-packages/apache_flink-*.dist-info"


def installed_version() -> str | None:
    """Which PyFlink is there, if any."""
    for folder in _place().glob(_PACKAGES):
        return folder.name.removesuffix(".dist-info").rpartition("-")[2]
    return None


def python() -> Path:
    """The Python that has it, where it is installed."""
    return _place() / "bin" / "python"


def how_to_install() -> str:
    """The command that makes the environment, with a Python that PyFlink works with."""
    place = _place()
    return f"python3.11 -m venv {place} && {place}/bin/pip install apache-flink=={VERSION}"


def connector_jar() -> Path:
    """Flink's Kafka connector, fetched once."""
    name = "flink-sql-connector-kafka"
    proof = f"{name}-{_CONNECTOR}.jar"
    modules = (("org.apache.flink", name, _CONNECTOR),)
    bundle = Bundle(f"Flink's Kafka connector {_CONNECTOR}", f"flink-connector-{_CONNECTOR}", modules, proof)
    return fetched(bundle, print) / proof


def _place() -> Path:
    """`flink` in the folder that has the brokers' jars, or what TIDEGATE_BENCH_FLINK names."""
    return Path(os.environ.get(_PLACE) or cache_folder() / "flink").absolute()
