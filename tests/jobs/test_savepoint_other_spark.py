"""A job goes on from a savepoint under a newer Spark, from 4.2 to 4.3; the way back is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs import versions_program

ROOT = Path(__file__).parents[2]
SPARK_4_2 = Path(sys.prefix) / "spark-4.2"
"""`./dev test` installs it."""

pytestmark = [pytest.mark.more, pytest.mark.timeout(600)]
_STATE = re.compile(r"; rows of state: (.*)")


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_window_that_was_begun_under_4_2_ends_under_4_3(tmp_path: Path, backend: str):
    begun("4.2", tmp_path, backend)
    for name, form in (("job", "native"), ("other", "native"), ("third", "canonical")):
        (savepoint,) = (tmp_path / "saved").glob(f"savepoint-*-{form}")
        log = run("4.3", tmp_path, backend, "go-on", name, str(savepoint))
        (state,) = _STATE.findall(log)
        assert [int(rows) for rows in re.findall(r": (\d+)", state)] == [1, 2], state
        assert windows(tmp_path, name) == [("00:00:00", 3)], "sea, sand once though it came again, and wind"


def test_the_way_back_is_refused_and_the_job_is_as_it_was(tmp_path: Path):
    begun("4.3", tmp_path, "rocksdb")
    (savepoint,) = (tmp_path / "saved").glob("savepoint-*-native")
    job = tmp_path / "checkpoints" / "job"
    before = everything(savepoint), everything(job / "queries"), (job / "job.json").read_bytes()
    ended = started("4.2", tmp_path, "rocksdb", "go-on", "job", str(savepoint))
    assert ended.returncode != 0
    assert "TG-RESTORE-STATE" in ended.stderr
    assert "found:    An error occurred" not in ended.stderr
    assert "whether this Spark is older than the savepoint's; nothing of the job was changed" in ended.stderr
    assert (everything(savepoint), everything(job / "queries"), (job / "job.json").read_bytes()) == before
    run("4.3", tmp_path, "rocksdb", "go-on", "job", str(savepoint))
    assert windows(tmp_path, "job") == [("00:00:00", 3)]


def everything(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def begun(version: str, folder: Path, backend: str) -> None:
    """A job with a window that is open, its savepoints, and the input that is to close it."""
    (folder / "in").mkdir()
    write(folder, event("01", "sea"), event("02", "sand"), event("01", "sea"))
    run(version, folder, backend, "begin")
    assert windows(folder, "job") == []
    write(folder, event("02", "sand"), event("03", "wind"), event("16", "salt"))


def run(version: str, folder: Path, *arguments: str) -> str:
    """Run the program under one version of Spark to its end; what it has logged."""
    ended = started(version, folder, *arguments)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout.split()[-1].startswith(f"{version}.")
    return ended.stderr


def started(version: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert SPARK_4_2.is_dir()
    spark = [SPARK_4_2] if version == "4.2" else []
    paths = {"PYTHONPATH": os.pathsep.join(map(str, [*spark, ROOT])), "PYSPARK_PYTHON": sys.executable}
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    return subprocess.run(
        [sys.executable, versions_program.__file__, str(folder), *arguments],
        env={**environment, **paths},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def event(time: str, word: str) -> dict[str, str]:
    return {"at": f"2024-01-01T00:00:{time}Z", "word": word}


def write(folder: Path, *rows: dict[str, str]) -> None:
    """One more file of input."""
    number = len(list((folder / "in").iterdir()))
    hidden = folder / "in" / f".{number}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(folder / "in" / f"{number}.json")


def windows(folder: Path, name: str) -> list[tuple[str, int]]:
    lines = [line for file in sorted((folder / f"out-{name}").glob("*.json")) for line in file.read_text().splitlines()]
    return [(row["start"], row["n"]) for row in map(json.loads, lines)]
