"""Files of an epoch before its commit: the driver compares each of them with its committable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.iceberg import sink_in
from tests.support.staged import outcome, staged
from tidegate import DeltaSink, FileSink
from tidegate.core.records import Outcome
from tidegate.sinks import staging
from tidegate.sinks.base import TwoPhaseSink

SINKS: dict[str, Callable[[Path], TwoPhaseSink]] = {
    "files": lambda folder: FileSink("numbers", folder),
    "delta": lambda folder: DeltaSink("numbers", folder),
    "iceberg": sink_in,
}


@pytest.mark.parametrize("make", SINKS.values(), ids=SINKS)
def test_the_files_of_two_tasks_are_compared_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], TwoPhaseSink]
) -> None:
    sink = make(tmp_path)
    of_both = [staged(sink, task=task) for task in range(2)]
    both, compared = threading.Barrier(2), staging.checksum_of

    def checksum_of(file: Path) -> str:
        both.wait(20)
        return compared(file)

    monkeypatch.setattr(staging, "checksum_of", checksum_of)
    assert outcome(sink, *of_both) is Outcome.COMMITTED
