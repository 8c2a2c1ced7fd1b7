"""The daemon that forks Python workers: Spark's own, with what they need imported once."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipimport import zipimporter

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidegate.settings.kinds import Backend
from tidegate.spark.session import DAEMON_KEY, adopt_session
from tidegate.spark.worker_daemon import MODULE, archives_of_installed, ending_quietly

_WITH_A_THREAD = """
import threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
"""


@contextmanager
def daemon(folder: Path | None = None, **environment: str) -> Generator[subprocess.Popen[bytes], None, None]:
    """As Spark's JVM starts it, in this folder: it ends when its input does."""
    theirs, ours = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, "pyspark.worker"],
        env={**os.environ, "PYTHON_WORKER_FACTORY_SECRET": "secret", "OMP_NUM_THREADS": "1", **environment},
        stdin=theirs,
        stdout=subprocess.PIPE,
        cwd=folder,
    )
    os.close(theirs)
    try:
        yield process
        os.close(ours)
        process.wait(10)
    finally:
        process.kill()
        process.communicate()


def port_of(process: subprocess.Popen[bytes]) -> int:
    """What it says when it is ready."""
    assert process.stdout is not None
    return int.from_bytes(process.stdout.read(4), "big")


def threads(process: subprocess.Popen[bytes]) -> int:
    return len(list(Path(f"/proc/{process.pid}/task").iterdir()))


def command_of(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/cmdline").read_text().replace("\0", " ")


def test_a_worker_whose_jvm_reads_no_more_ends_without_a_word(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> int:
        raise BrokenPipeError

    assert ending_quietly(broken)("socket", True) == 1
    assert ending_quietly(lambda *_: 0)("socket", True) == 0
    monkeypatch.setenv("TIDEGATE_VERBOSE", "1")
    with pytest.raises(BrokenPipeError):
        ending_quietly(broken)("socket", True)


def test_a_program_or_a_module_beside_it_may_have_the_name_of_a_module_of_python(tmp_path: Path):
    for name in ("numbers", "random", "calendar", "statistics", "queue", "decimal"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError(__file__)")
    with daemon(tmp_path, PYTHONPATH=os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(tmp_path)])) as process:
        assert port_of(process) > 0


def test_it_has_imported_what_workers_need_and_no_thread_when_it_forks_them():
    with daemon() as process:
        assert port_of(process) > 0
        maps = Path(f"/proc/{process.pid}/maps").read_text()
        assert ("/pandas/" in maps, "/pyarrow/" in maps, threads(process)) == (True, True, 1)
        assert MODULE in command_of(process)


def test_it_leaves_the_archives_of_an_installed_pyspark_out(tmp_path: Path):
    """Python compiles the modules of a zip anew, and reads the lists of all archives before each task."""
    installed, other = tmp_path / "site-packages", tmp_path / "spark"
    for folder in (
        installed / "pyspark/python/lib",
        installed / "pyspark/jars",
        installed / "py4j",
        other / "python/lib",
    ):
        folder.mkdir(parents=True)
    archives = [installed / "pyspark/python/lib/pyspark.zip", installed / "pyspark/jars/spark-core.jar"]
    others = [other / "python/lib/pyspark.zip", tmp_path / "mine.zip"]
    for file in (*archives, *others):
        file.touch()
    path = ["", *map(str, (*archives, *others)), str(installed)]
    assert archives_of_installed(path) == [str(each) for each in archives]
    (installed / "py4j").rmdir()
    assert archives_of_installed(path) == [], "its py4j may be in a zip alone"


def test_a_worker_reads_no_archive_of_pyspark_and_collects_none_of_its_modules(spark: SparkSession):
    seen = spark.range(0, 1, 1, 1).mapInArrow(seen_in_a_worker, "zips string, frozen long").collect()[0]
    assert (seen.zips, seen.frozen > 10_000) == ("", True)


def test_workers_of_a_session_that_the_user_made_are_forked_by_it_too(spark: SparkSession):
    context: Any = spark.sparkContext
    conf = context._jsc.sc().conf()
    conf.set(DAEMON_KEY, "pyspark.daemon")
    adopt_session(spark, Backend.ROCKSDB)
    assert conf.get(DAEMON_KEY) == "pyspark.daemon", "what the user has chosen stays"
    conf.remove(DAEMON_KEY)
    adopt_session(spark, Backend.ROCKSDB)
    assert conf.get(DAEMON_KEY) == MODULE
    [seen] = spark.range(0, 1, 1, 1).mapInArrow(command_of_the_daemon, "command string").collect()
    assert MODULE in seen.command


def command_of_the_daemon(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    command = Path(f"/proc/{os.getppid()}/cmdline").read_text()
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"command": [command]})


def seen_in_a_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    zips = [place for place, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)]
    found = {"zips": [" ".join(each for each in zips if "pyspark" in each)], "frozen": [gc.get_freeze_count()]}
    for _ in batches:
        yield pa.RecordBatch.from_pydict(found)


def test_what_the_program_has_imported_of_tidegate_is_imported_once():
    with daemon(TIDEGATE_WORKER_IMPORTS="tidegate.sinks.kafka.sink") as process:
        assert port_of(process) > 0
        assert "/confluent_kafka" in Path(f"/proc/{process.pid}/maps").read_text()
        assert MODULE in command_of(process)


def test_where_an_import_starts_a_thread_sparks_own_daemon_takes_its_place(tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(_WITH_A_THREAD)
    with daemon(PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path])) as process:
        assert port_of(process) > 0
        assert "-m pyspark.daemon pyspark.worker" in command_of(process)
