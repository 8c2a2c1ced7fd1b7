"""A sink and a source in a package of their own, found by entry points: commands look at them as at those that tidegate
ships."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from tests.outside.drops.drops import DropSink as NotRegistered
from tests.outside.drops.drops_in import Drops as NotRegisteredSource
from tests.support.killed_job import KilledJob
from tests.support.today import turn
from tidegate.operate.sinks import SINKS
from tidegate.operate.sources import describe_source, write_sources
from tidegate.settings.entry_points import registered
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.kinds import sink_class
from tidegate.source_api import Source
from tidegate.sources.kinds import source_class
from tidegate.storages.opening import open_storage
from tidegate.testing.contract import Row, SinkContract
from tidegate.testing.source_contract import SourceContract

PACKAGE = Path(__file__).parent / "drops"
PROGRAM = Path(__file__).parent / "drops_program.py"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[TwoPhaseSink]]:
    """The package is on the path of this process and of those that it starts."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")]))
    registered.cache_clear()
    yield sink_class("drops")
    registered.cache_clear()


@pytest.fixture
def source(installed: Any, tmp_path: Path) -> Any:
    """The source of the package, with a secret, over three rows of one sender and two of another."""
    folder = tmp_path / "sent"
    folder.mkdir()
    for sender, rows in (("ann", 3), ("bob", 2)):
        (folder / f"{sender}.jsonl").write_text("".join(f'{{"id": {n}, "word": "{sender}"}}\n' for n in range(rows)))
    return cast("Any", source_class("drops"))(folder, token="hunter2")


class TestDrops(SinkContract):
    keeps_evidence = False

    def make_sink(self) -> TwoPhaseSink:
        return NotRegistered("numbers", self.folder / "drops")

    def read_target(self) -> list[Row]:
        return [json.loads(line) for file in (self.folder / "drops").glob("*.json") for line in file.open()]


class TestDropsAsSource(SourceContract):
    secrets: ClassVar[Sequence[str]] = ("hunter2",)

    @pytest.fixture(autouse=True)
    def _installed(self, installed: Any) -> None:
        (self.folder / "sent").mkdir()

    def make_source(self) -> Source:
        return cast("Any", source_class("drops"))(self.folder / "sent", token="hunter2")

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            with (self.folder / "sent" / f"sender-{row['id'] % 2}.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")


def command(*arguments: str) -> tuple[int, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tidegate.cli.main", *arguments, "--json"], capture_output=True, text=True, check=False
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def killed_before_its_sinks_took_epoch_0(folder: Path, sink: TwoPhaseSink) -> KilledJob:
    job = KilledJob(folder, sink)
    job.prepare(0)
    job.log(0)
    return job


def test_commands_open_it_look_at_it_and_commit_what_waits(tmp_path: Path, installed: Any):
    drops = installed("files", tmp_path / "drops", token="hunter2")
    job = killed_before_its_sinks_took_epoch_0(tmp_path, drops)
    assert "hunter2" not in (job.folder / SINKS).read_text()
    at = ("--dir", str(job.root))

    code, found = command("check", "--job", "job", *at)
    about = {each["what"]: each for each in found}
    assert "TG" not in about["sink counts/table"]["detail"]
    assert "--option token=" in about["sink counts/files"]["next"], "a secret is asked for"
    code, found = command("check", "--job", "job", "--option", "token=env:HOME", *at)
    assert {each["what"]: each["detail"] for each in found}["sink counts/files"] == f"0 drops in {tmp_path / 'drops'}"

    code, found = command("txn", "ls", "job", "--option", "token=env:HOME", *at)
    assert code == 0, found
    mine = [each for each in found["transactions"] if each["sink"] == "files"]
    assert {(each["target"], each["verdict"]) for each in mine} == {(f"drops in {tmp_path / 'drops'}", "commit")}

    names = [each["name"] for each in found["transactions"]]
    code, found = command("txn", "commit", "job", names[0], "--option", "token=env:HOME", *at)
    assert code == 0, found
    assert len(list((tmp_path / "drops").glob("*.json"))) == len(mine)


def test_where_its_package_is_missing_the_command_says_which_kind_it_needs(
    tmp_path: Path, installed: Any, monkeypatch: pytest.MonkeyPatch
):
    job = killed_before_its_sinks_took_epoch_0(tmp_path, installed("files", tmp_path / "drops"))
    monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"].removeprefix(f"{PACKAGE}{os.pathsep}"))
    _, found = command("check", "--job", "job", "--dir", str(job.root))
    about = {each["what"]: each for each in found}["sink counts/files"]
    assert "no 'drops'" in about["detail"]
    assert "install the package that has it" in about["next"]


def test_a_class_that_is_registered_nowhere_is_opened_by_its_program_alone(tmp_path: Path):
    job = killed_before_its_sinks_took_epoch_0(tmp_path, NotRegistered("files", tmp_path / "drops"))
    _, found = command("check", "--job", "job", "--dir", str(job.root))
    about = {each["what"]: each for each in found}["sink counts/files"]
    assert about["detail"] == "DropSink: only the job's program can open it"


@turn(0, of=3)
def test_a_job_reads_it_and_commands_look_at_it_without_the_program(tmp_path: Path, source: Any):
    """A secret is asked for, and stands nowhere in the job's folder."""
    done = subprocess.run([sys.executable, str(PROGRAM), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        rows = sorted(database.execute("SELECT id, word FROM lines"))
    assert rows == [(0, "ann"), (0, "bob"), (1, "ann"), (1, "bob"), (2, "ann")]
    kept = [file.read_bytes() for file in (tmp_path / "checkpoints").rglob("*") if file.is_file()]
    assert not any(b"hunter2" in data for data in kept)
    at = ("--dir", str(tmp_path / "checkpoints"))

    code, found = command("check", "--job", "job", *at)
    about = {each["what"]: each for each in found}["source drops"]
    assert "--option token=env:NAME" in about["next"]
    code, found = command("check", "--job", "job", "--option", "token=env:HOME", *at)
    assert {each["what"]: each["detail"] for each in found}["source drops"] == f"5 rows in {source.folder}"
    code, found = command("info", "job", *at)
    assert code == 0, found
    assert found["sources"] == [{"uid": "drops", "type": "drops", "target": f"drops in {source.folder}"}]


def test_where_its_package_is_missing_the_command_says_which_kind_of_source_it_needs(
    tmp_path: Path, installed: Any, source: Any, monkeypatch: pytest.MonkeyPatch
):
    job = killed_before_its_sinks_took_epoch_0(tmp_path, installed("files", tmp_path / "drops"))
    write_sources(open_storage(job.folder), [describe_source("in", source)])
    monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"].removeprefix(f"{PACKAGE}{os.pathsep}"))
    _, found = command("check", "--job", "job", "--option", "token=env:HOME", "--dir", str(job.root))
    about = {each["what"]: each for each in found}["source in"]
    assert "no 'drops'; there are channel, files, kafka, kafka-channel, socket" in about["detail"]
    assert "install the package that has it" in about["next"]


def test_a_source_class_that_is_registered_nowhere_is_opened_by_its_program_alone(tmp_path: Path):
    described = describe_source("in", NotRegisteredSource(tmp_path))
    assert described.target == {"type": "other", "what": "Drops"}
