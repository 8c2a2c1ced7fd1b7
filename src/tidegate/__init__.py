"""Exactly-once sinks, checkpoints and savepoints for PySpark Structured Streaming."""

from importlib.metadata import version

__version__ = version("tidegate")
