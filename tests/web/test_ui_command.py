"""`tidegate ui` as its users have it, in a process of its own; and the pages beside jobs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.folders import make_job, say
from tests.support.command import tidegate
from tests.support.logged import told
from tests.web.served import RIGHT, TOKEN, Acts, ServedPage
from tidegate.cli.page_beside import PageNews, opened_page
from tidegate.operate import Folder
from tidegate.operate.beat import JobState
from tidegate.settings.config import Settings
from tidegate.settings.given import PAGE_VARIABLE
from tidegate.settings.kinds import WarmUp
from tidegate.spark.page_of_job import PageOfJob
from tidegate.supervise.news import News
from tidegate.web.serving import WebPage

LIVE: Any = None
"""A job that nobody looks at."""


@contextmanager
def command(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[tuple[Any, str]]:
    """`tidegate ui`, until the first line that it prints."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tidegate.cli.main", "ui", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**own, **(environment or {})},
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def port_in(line: str) -> int:
    return int(line.split()[1].rstrip("/").rpartition(":")[2])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_address_and_token_once_and_a_signal_ends_it_well(tmp_path: Path, number: signal.Signals) -> None:
    say(make_job(tmp_path), JobState.FINISHED)
    with command("--dir", str(tmp_path)) as (process, line):
        words = line.split()
        assert words[0::2] == ["page:", "token:"]
        page = ServedPage(LIVE, port_in(line), Acts())
        assert [job["name"] for job in page.ask("/jobs/cards").json["jobs"]] == ["job"]
        assert page.ask("/access", {"Authorization": f"Bearer {words[3]}"}).json["may_act"] is True
        process.send_signal(number)
        rest, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert (rest, errors) == ("", "")


def test_for_programs_it_prints_one_value(tmp_path: Path) -> None:
    with command("--dir", str(tmp_path), "--json") as (_, line):
        shown = json.loads(line)
    assert sorted(shown) == ["token", "url"]
    assert len(shown["token"]) >= 40


def test_a_token_of_the_environment_is_not_shown(tmp_path: Path) -> None:
    with command("--dir", str(tmp_path), environment={"TIDEGATE_UI_TOKEN": TOKEN}) as (process, line):
        assert TOKEN not in line
        page = ServedPage(LIVE, port_in(line), Acts())
        assert page.ask("/access", RIGHT).json["may_act"] is True
        process.terminate()
        assert TOKEN not in "".join(process.communicate(timeout=20))


def test_wrong_options_and_an_address_that_is_taken_have_the_exit_codes_of_all_commands(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = tidegate("ui", "--dir", str(tmp_path), "--port", port)
        assert said.code == 1
        assert "TG-PAGE-UNUSABLE" in said.stderr
    assert tidegate("ui", "--dir", str(tmp_path / "missing")).code == 3
    assert tidegate("ui", "--dir", str(tmp_path), "--host", "0.0.0.0").code == 1
    assert tidegate("ui", "--dir", str(tmp_path), "--port", "x").code == 2
    assert tidegate("ui", "--no-such-option").code == 2


# --- beside a job --------------------------------------------------------------------------------------------


def test_under_run_the_page_serves_as_soon_as_the_folder_of_the_jobs_is_known(tmp_path: Path) -> None:
    job = make_job(tmp_path / "declared-by-the-program")
    with opened_page(Settings(ui_port=0), {}) as page:
        assert page is not None
        news = PageNews(News(), page)
        for _ in range(2):  # a second driver declares it again
            news.declared("job", Folder.of(job), WarmUp.OFF)
        assert [each.name for each in threading.enumerate()].count("tidegate-page") == 1
        served = ServedPage(page, int(page.address.rpartition(":")[2]), Acts())
        assert served.ask("/jobs/cards").json["storage"] == str(job.parent)
    assert page.wait(10.0)


def test_a_page_that_cannot_be_opened_is_a_note_and_the_job_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        opened_page(Settings(ui_port=taken.getsockname()[1]), {}) as page,
    ):
        assert page is None
    assert "the job runs without its page" in capsys.readouterr().err


def test_a_job_opens_its_page_and_ends_it_without_waiting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    companion = PageOfJob(Settings(ui_port=0, checkpointing_dir=str(tmp_path)))
    companion.opening(LIVE)
    shown = capsys.readouterr().err
    page: WebPage = vars(companion)["_page"]
    assert shown == page.announced + "\n"
    assert page.token is None  # nobody reads this standard error, and a log shows no token
    assert ServedPage(page, port_in(shown), Acts()).ask("/jobs/cards").status == 200
    companion.ended(None)
    assert page.wait(10.0)


def test_a_job_whose_page_cannot_be_opened_warns_and_runs(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        companion = PageOfJob(Settings(ui_port=taken.getsockname()[1]))
        companion.opening(LIVE)
        companion.ended(None)
    assert "the job runs without its page: TG-PAGE-UNUSABLE" in told(caplog)[0]


def test_a_job_without_the_packages_of_the_page_warns_and_runs(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tidegate.web.serving", None)
    PageOfJob(Settings(ui_port=0)).opening(LIVE)
    assert "the job runs without its page" in told(caplog)[0]


def test_below_a_page_of_the_supervisor_a_job_opens_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(PAGE_VARIABLE, "1")
    PageOfJob(Settings(ui_port=0)).opening(LIVE)
    assert capsys.readouterr().err == ""
