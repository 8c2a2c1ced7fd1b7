"""What the benchmarks of storages make of what they see; no server, no Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import storage_cluster, storage_growth, storage_savepoint
from bench.child import MEASURES, SUITES
from bench.cluster_program import Seen
from bench.footprint import cpu_seconds_of_sessions
from tidegate.core.ledger import KEPT_AT_LEAST
from tidegate.storages.schemes import Folder


def test_an_epoch_that_takes_longer_at_the_end_has_grown_and_one_slow_epoch_has_not() -> None:
    first, last = [10.0] * 9 + [500.0], [12.0] * 9 + [1.0]
    grown = storage_growth.growth_of("s3", [99.0, *first, *[10.0] * 20, *last], 10, 1, has_goal=True)
    assert (grown.name, grown.value, grown.is_met) == ("storage-growth-s3", 20.0, False)
    assert grown.medians() == {"early ms": 10.0, "late ms": 12.0}
    level = storage_growth.growth_of("hdfs", [99.0, *first, *first], 10, 1, has_goal=True)
    assert (level.value, level.is_met) == (0.0, True)


def test_the_aging_query_runs_the_protocol_to_its_end_and_its_ledger_stays_small(tmp_path: Path) -> None:
    epochs = 70
    assert len(storage_growth.AgingQuery(Folder.of(tmp_path)).epochs_ms(epochs)) == epochs
    left = {folder: len(list((tmp_path / "ledger" / folder).iterdir())) for folder in ("prepared", "decided", "done")}
    assert (tmp_path / "ledger" / "done" / str(epochs)).exists()
    assert all(count <= 2 * 20 + KEPT_AT_LEAST for count in left.values()), left
    assert [path for path in (tmp_path / "journal").rglob("*") if path.is_file()] == []


def test_an_error_of_the_finisher_ends_the_aging_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = storage_growth.AgingQuery(Folder.of(tmp_path))

    def fail(*_: object) -> None:
        raise LookupError

    monkeypatch.setattr(query._sink, "publish", fail)
    with pytest.raises(LookupError):
        query.epochs_ms(5)


def test_a_savepoint_that_takes_longer_than_the_client_is_slower() -> None:
    figure = storage_savepoint.figure_of("hdfs", 1_073_741_824, [8.0, 9.0, 8.0], [10.0, 10.0, 16.0], has_goal=True)
    assert (figure.value, figure.is_met) == (0.8, True)
    assert "1,074 MB to HDFS against `hdfs dfs -put`" in figure.what


def test_cpu_time_of_the_epochs_behind_the_warm_up_counts_by_rounds() -> None:
    def lines(warm: float, each: float) -> list[Seen]:
        marks = [warm] * storage_cluster.WARM_UP + [warm + each * number for number in range(1, 5)]
        return [Seen(rows=1, cpu_seconds=mark, at=mark / 2) for mark in marks]

    figure = storage_cluster.figure_of("kafka-map", lines(30.0, 1.0), lines(90.0, 1.04), has_goal=True)
    assert (figure.name, figure.value, figure.is_met) == ("storage-cluster-map", 1.04, True)
    assert figure.samples["baseline CPU s"] == [2.0, 2.0]
    assert figure.samples["tidegate s"] == [1.04, 1.04]


def test_cpu_time_of_several_sessions_is_counted_together() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(1, flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        alone = cpu_seconds_of_sessions({other.pid})
        both = cpu_seconds_of_sessions({other.pid, os.getsid(0)})
        other.communicate(b"\n")
    assert 0.25 <= alone < 5.0
    assert both > alone


def test_the_suite_has_all_four() -> None:
    assert list(SUITES["storage"]) == ["storage-epochs", "storage-growth", "storage-savepoint", "storage-cluster"]
    assert set(SUITES["storage"]) <= set(MEASURES)
