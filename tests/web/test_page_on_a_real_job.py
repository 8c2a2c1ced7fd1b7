"""What a person does on the page with a job that runs on Spark: each action, in a real browser, on a real server."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.jobs.under_run import NUMBERS, UnderRun, table, wait_until, write
from tests.support.driver import PYTHON_PATH
from tests.web.looking import looking
from tests.web.test_ui_command import command, port_in
from tidegate import operate
from tidegate.operate import State

pytestmark = [pytest.mark.more, pytest.mark.timeout(900)]

SOON_MS = 120_000
JOB = "#/jobs/numbers"


class Person:
    """At a page that has been given the token."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self._address = address

    def goes_to(self, place: str) -> None:
        self.page.goto(f"{self._address}/{place}")

    def sees(self, state: str) -> None:
        expect(self.page.locator(".head .pill")).to_have_text(re.compile(state), timeout=SOON_MS)

    def does(self, button: str, *, behind: str | None = None, into: Path | None = None) -> Locator:
        """An action, up to its end. The dialog stays."""
        if behind is not None:
            self.page.locator("summary", has_text=behind).click()
        self.page.get_by_role("button", name=button, exact=True).click()
        dialog = self.page.get_by_role("dialog")
        if into is not None:
            dialog.locator("[name=into]").fill(str(into))
        dialog.locator("[data-first]").click()
        expect(dialog.locator(".lead")).to_contain_text("done", timeout=SOON_MS)
        return dialog

    def happened(self) -> list[str]:
        """What stands on the axis beside the epochs, the oldest first, as a screen reader says it."""
        slider = self.page.get_by_role("slider", name="Epochs in time")
        slider.focus()
        slider.press("Home")
        said: list[str] = []
        for number in range(1, int(slider.get_attribute("aria-valuemax") or 0) + 1):
            expect(slider).to_have_attribute("aria-valuenow", str(number))
            said.append(slider.get_attribute("aria-valuetext") or "")
            slider.press("ArrowRight")
        return [each for each in said if not each.startswith("Epoch ")]

    def closes(self) -> None:
        self.page.keyboard.press("Escape")
        expect(self.page.get_by_role("dialog")).to_have_count(0)

    def checks(self, program: str, folder: Path, savepoint: str) -> None:
        """Fill in the form, and ask whether the program fits the savepoint."""
        self.goes_to("#/start")
        form = self.page.locator("form.start")
        form.locator("[name=program]").select_option(label=program)
        form.locator("[name=arguments]").fill(f"{folder} forever")
        form.locator("[name=savepoint]").fill(savepoint)
        form.get_by_role("button", name="Check, then start").click()


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """The job's program, and one with another query."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "of_numbers.py").write_text(NUMBERS.read_text())
    (folder / "of_others.py").write_text(NUMBERS.read_text().replace('"copies"', '"others"'))
    return folder


@contextmanager
def person_at(browser: Browser, storage: Path, programs: Path) -> Iterator[tuple[Person, Any]]:
    """A person at a page of the storage, and the process that serves it."""
    storage.mkdir(exist_ok=True)
    served = command("--dir", str(storage), "--programs", str(programs), environment={"PYTHONPATH": PYTHON_PATH})
    with served as (process, line), looking(browser) as looked:
        address, token = f"http://127.0.0.1:{port_in(line)}", line.split()[3]
        looked.page.goto(f"{address}/#/")
        looked.page.evaluate(f"sessionStorage.setItem('tidegate-token', '{token}')")
        yield Person(looked.page, address), process
        assert looked.wrong == []


def test_a_job_is_saved_killed_watched_and_stopped_and_its_savepoint_removed(
    chromium: Browser, storage: Path, programs: Path, tmp_path: Path
) -> None:
    write(tmp_path, 0, 10)
    saved = storage / "saved"
    with UnderRun(tmp_path, "forever") as run, person_at(chromium, storage, programs) as (person, _):
        wait_until(lambda: len(table(tmp_path)) == 10, "the rows", run)
        person.goes_to(JOB)
        person.sees("RUNNING")
        person.does("Checkpoint…")
        person.closes()
        path = str(saved / "savepoint-")
        expect(person.does("Savepoint…", into=saved)).to_contain_text(path)
        person.closes()
        driver = run.new_driver()
        os.kill(driver, signal.SIGKILL)
        person.sees("RESTARTING|STARTING")
        person.sees("RUNNING")
        run.new_driver(driver)
        person.goes_to(f"{JOB}/exceptions")
        expect(person.page.locator(".failures")).to_contain_text("a restart followed")
        write(tmp_path, 10, 10)
        wait_until(lambda: len(table(tmp_path)) == 20, "the rows after the restart", run)
        expect(person.does("Stop with savepoint…", behind="Stop", into=saved)).to_contain_text(path)
        person.closes()
        person.sees("FINISHED|STOPPED")
        assert run.wait() == 0
        assert table(tmp_path) == list(range(20))
        person.goes_to(f"{JOB}/checkpoints/savepoints")
        buttons = person.page.get_by_role("button", name="Dispose…")
        folder = person.page.locator("[name=dir]")
        folder.fill(str(saved))
        folder.press("Enter")
        expect(buttons).to_have_count(2, timeout=SOON_MS)
        buttons.first.click()
        person.page.get_by_role("dialog").get_by_role("button", name="Dispose of it").click()
        expect(buttons).to_have_count(1, timeout=SOON_MS)
        assert len(operate.list_savepoints(saved).savepoints) == 1
        person.goes_to(JOB)
        happened = person.happened()
        assert [each.partition(" at ")[0] for each in happened] == [
            *("Start", "Savepoint", "Failure and restart"),
            *("Start", "Savepoint", "Stop"),
        ]
        assert str(saved) in happened[1]
        person.goes_to(f"{JOB}/sources")
        expect(person.page.locator("main")).to_contain_text("entry 19 of the log of its files")


def test_a_job_is_stopped_and_started_again_drained_and_another_is_canceled(
    chromium: Browser, storage: Path, programs: Path, tmp_path: Path
) -> None:
    """A stop and a cancel take no savepoint; a drain does, as in Flink."""
    saved = storage / "saved"
    write(tmp_path, 0, 5)
    with person_at(chromium, storage, programs) as (person, _):
        for button, into in (("Stop…", None), ("Drain…", saved)):
            with UnderRun(tmp_path, "forever") as run:
                wait_until(lambda: len(table(tmp_path)) == 5, "the rows", run)
                person.goes_to(JOB)
                person.sees("RUNNING")
                person.does(button, behind="Stop", into=into)
                person.closes()
                person.sees("STOPPED")
                assert run.wait() == 0, run.tail()
            assert table(tmp_path) == list(range(5))
        expect(person.page.locator("main")).to_contain_text("Drained")
        happened = [each.partition(" at ")[0] for each in person.happened()]
        assert happened == ["Start", "Stop", "Start", "Savepoint", "Stop"]
    assert len(operate.list_savepoints(saved).savepoints) == 1

    another = tmp_path / "another"
    another.mkdir()
    write(another, 0, 5)
    with UnderRun(another, "forever") as run, person_at(chromium, another / "checkpoints", programs) as (person, _):
        wait_until(lambda: len(table(another)) == 5, "the rows", run)
        person.goes_to(JOB)
        person.sees("RUNNING")
        person.does("Cancel…", behind="Stop")
        person.closes()
        person.sees("CANCELED")
        assert run.wait() == 0
    assert table(another) == list(range(5))


def test_a_job_is_started_from_its_savepoint_outlives_the_page_and_is_canceled(
    chromium: Browser, storage: Path, programs: Path, tmp_path: Path
) -> None:
    write(tmp_path, 0, 10)
    with UnderRun(tmp_path, "forever") as run:
        wait_until(lambda: len(table(tmp_path)) == 10, "the rows", run)
        operate.open(storage, "numbers").stop_with_savepoint(str(storage / "saved")).wait()
        assert run.wait() == 0
    (savepoint,) = operate.list_savepoints(storage / "saved").savepoints
    with person_at(chromium, storage, programs) as (person, page):
        verdict = person.page.locator(".verdict")
        person.checks("of_others.py", tmp_path, savepoint.path)
        expect(verdict).to_contain_text("does not fit", timeout=SOON_MS)
        expect(verdict).to_contain_text("copies")
        person.checks("of_numbers.py", tmp_path, savepoint.path)
        expect(verdict).to_contain_text("The program fits", timeout=SOON_MS)
        person.page.get_by_role("button", name="Start the job").click()
        started = verdict.get_by_text("keeps the job alive")
        expect(started).to_be_visible(timeout=SOON_MS)
        supervisor = int(re.findall(r"Process ([0-9]+)", started.inner_text())[0])
        person.page.get_by_role("link", name="look at numbers").click()
        person.sees("RUNNING")
        page.kill()
    try:
        write(tmp_path, 10, 10)
        until(lambda: table(tmp_path) == list(range(20)))
        with person_at(chromium, storage, programs) as (person, _):
            person.goes_to(JOB)
            ended = person.does("Cancel with savepoint…", behind="Stop", into=storage / "saved")
            expect(ended).to_contain_text(str(storage / "saved"))
            person.closes()
            person.sees("CANCELED")
    finally:
        with suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGKILL)
    assert operate.open(storage, "numbers").info().job.state is State.CANCELED
    assert table(tmp_path) == list(range(20))


def until(seen: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON_MS / 1000
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.1)
