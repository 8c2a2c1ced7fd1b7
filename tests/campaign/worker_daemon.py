"""Spark's Python worker daemon with its imports done: a worker that replaces a killed one starts at once."""

from __future__ import annotations

import pandas as pd
import pyarrow.compute as pc
from pyspark.daemon import manager

import tests.campaign.tray
import tidegate.sinks.files.sink
import tidegate.sinks.sqlite.sink
import tidegate.spark.writer
from tests.campaign.stores.named import load

LOADED = (pd, pc, tests.campaign.tray, tidegate.sinks.files.sink, tidegate.sinks.sqlite.sink, tidegate.spark.writer)

if __name__ == "__main__":
    load()
    manager()
