"""`tidegate ui` on a storage that is no disk: it shows a job that runs there, and acts on it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver import Driver
from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server
from tests.support.today import turn
from tests.web.served import Acts, ServedPage
from tests.web.test_ui_command import LIVE, command, port_in
from tidegate import operate

PROGRAM = Path(__file__).with_name("page_program.py")
WORDS = ["bay", "sea", "tide"]
_SECONDS = 120.0


@turn(3, of=4)
@pytest.mark.timeout(400)
def test_the_page_of_jobs_on_s3_shows_one_saves_it_and_stops_it(s3: S3Server, tmp_path: Path) -> None:
    is_shown_saved_and_stopped(tmp_path, str(s3.folder()))


@turn(1, of=4)
@pytest.mark.timeout(400)
def test_the_page_of_jobs_on_hdfs_shows_one_saves_it_and_stops_it(hdfs: HdfsServer, tmp_path: Path) -> None:
    is_shown_saved_and_stopped(tmp_path, f"{hdfs.uri}/{tmp_path.name}/checkpoints")


def is_shown_saved_and_stopped(folder: Path, checkpoints: str) -> None:
    (folder / "in").mkdir()
    for word in WORDS:
        (folder / "in" / word).write_text(f"{word}\n")
    saved = f"{checkpoints}/saved"
    with (
        Driver(PROGRAM, str(folder), checkpoints, log=folder / "log") as driver,
        command("--dir", checkpoints) as (_, line),
    ):
        page, token = ServedPage(LIVE, port_in(line), Acts()), line.split()[3]

        def ask(path: str) -> Any:
            return page.ask(path).json

        def act(path: str, body: bytes) -> str:
            answer = page.ask(path, {"Authorization": f"Bearer {token}"}, method="POST", body=body)
            assert answer.status == 202, answer.body
            return answer.json["request-id"]

        def await_saved(trigger: str) -> str:
            at = f"/jobs/{found}/savepoints/{trigger}"
            until(lambda: ask(at)["status"]["id"] == "COMPLETED", driver)
            return ask(at)["operation"]["location"]

        until(lambda: [each["state"] for each in ask("/jobs/overview")["jobs"]] == ["RUNNING"], driver)
        (found,) = [each["jid"] for each in ask("/jobs/overview")["jobs"]]
        until(lambda: ask(f"/jobs/{found}/checkpoints")["counts"]["completed"] == len(WORDS), driver)
        (source,) = ask(f"/jobs/{found}/sources")["sources"]
        until(lambda: ask(f"/jobs/{found}/sources")["sources"][0]["offsets"] != {}, driver)
        assert source["uid"] == "lines"
        first = await_saved(act(f"/jobs/{found}/savepoints", b'{"target-directory": "%s"}' % saved.encode()))
        last = await_saved(act(f"/jobs/{found}/stop", b'{"targetDirectory": "%s"}' % saved.encode()))
        assert driver.wait() == 0, driver.tail()
        until(lambda: [each["state"] for each in ask("/jobs/overview")["jobs"]] == ["FINISHED"], driver)
        until(lambda: len(ask(f"/jobs/{found}/events-on-axis")["events"]) == 4, driver)
        events = ask(f"/jobs/{found}/events-on-axis")["events"]
        assert [each["kind"] for each in events] == ["start", "savepoint", "savepoint", "stop"]
        assert sum(each["read"] for each in ask(f"/jobs/{found}/epochs")["epochs"]) == len(WORDS)
    assert {each.path for each in operate.list_savepoints(saved).savepoints} == {first, last}
    with closing(sqlite3.connect(folder / "out.db")) as table:
        assert sorted(word for (word,) in table.execute("SELECT value FROM words")) == WORDS


def until(seen: Callable[[], bool], driver: Driver) -> None:
    end = time.monotonic() + _SECONDS
    while not seen():
        assert time.monotonic() < end, driver.tail()
        time.sleep(0.3)
