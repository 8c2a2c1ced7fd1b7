"""A sink in a package of its own, found by its entry point: commands look at it as at those that tidegate ships."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.outside.drops.drops import DropSink as NotRegistered
from tests.support.killed_job import KilledJob
from tidegate.operate.sinks import SINKS
from tidegate.sinks import kinds
from tidegate.sinks.base import TwoPhaseSink
from tidegate.testing.contract import Row, SinkContract

PACKAGE = Path(__file__).parent / "drops"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[TwoPhaseSink]]:
    """The package is on the path of this process and of those that it starts."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")]))
    kinds.registered.cache_clear()
    yield kinds.sink_class("drops")
    kinds.registered.cache_clear()


class TestDrops(SinkContract):
    keeps_evidence = False

    def make_sink(self) -> TwoPhaseSink:
        return NotRegistered("numbers", self.folder / "drops")

    def read_target(self) -> list[Row]:
        return [json.loads(line) for file in (self.folder / "drops").glob("*.json") for line in file.open()]


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
