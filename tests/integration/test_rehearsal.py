"""The short job that a standby runs before it waits: it leaves no file, no log line and no report."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from tests.integration.place import Place
from tidegate.settings.config import Settings
from tidegate.settings.kinds import Backend
from tidegate.spark import rehearsal
from tidegate.spark.handle import JobHandle
from tidegate.spark.rehearsal import rehearse
from tidegate.spark.starting import start


class Hears(StreamingQueryListener):
    def __init__(self) -> None:
        self.events: list[Any] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's)
        self.events.append(event)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 (Spark's)
        self.events.append(event)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 (Spark's)
        self.events.append(event)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 (Spark's)
        self.events.append(event)


@pytest.mark.parametrize("backend", [Backend.ROCKSDB, pytest.param(Backend.HASHMAP, marks=pytest.mark.more)])
def test_a_rehearsal_runs_and_leaves_nothing(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, backend: Backend
):
    """Settings of a file or of the command do not reach it."""
    spark, elsewhere = place.spark, place.folder / "elsewhere"
    monkeypatch.setenv("TIDEGATE_CHECKPOINTING_DIR", str(elsewhere))
    before = left_in(spark), signal.getsignal(signal.SIGTERM)
    listener = Hears()
    handles: list[JobHandle] = []

    def started(*given: Any, **named: Any) -> JobHandle:
        handles.append(start(*given, **named))
        return handles[-1]

    monkeypatch.setattr(rehearsal, "start", started)
    spark.streams.addListener(listener)
    try:
        with caplog.at_level(logging.DEBUG, "tidegate"):
            rehearse(spark, Settings(state_backend=backend), lambda: False)
    finally:
        spark.streams.removeListener(listener)
    assert caplog.records == [], "the job's log has no epochs of another one"
    (handle,) = handles
    assert (handle.error(), handle.finished()["counts"] >= 2) == (None, True)
    assert (left_in(spark), signal.getsignal(signal.SIGTERM)) == before
    assert not elsewhere.exists()
    assert listener.events == []
    assert SparkSession.getActiveSession() is not None
    assert spark.streams.active == []


def test_a_rehearsal_ends_when_the_standby_is_needed(place: Place, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG, "tidegate"):
        rehearse(place.spark, Settings(), lambda: True)
    assert "could not rehearse" not in caplog.text


def left_in(spark: SparkSession) -> list[Path]:
    context: Any = spark.sparkContext
    return sorted(Path(context._temp_dir).glob("standby-*"))
