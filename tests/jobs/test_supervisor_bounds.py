"""A supervisor in this process, with real drivers, and with bounds that a test can wait for."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.jobs.test_supervisor import COUNT, DECLARING, starts
from tidegate.checkpoints.locks import acquire
from tidegate.cli.run import exit_of
from tidegate.core.errors import TidegateError
from tidegate.core.given import OVERRIDES_VARIABLE
from tidegate.jobs import cures, progress
from tidegate.jobs.failures import Failure
from tidegate.jobs.settings import load_settings
from tidegate.jobs.supervisor import Ending, News, Supervisor

STARTING = """
supervised = declare()
def steps(*told):
    for step in told:
        time.sleep(0.5)
        supervised.moves(step)
"""
"""As a job whose start takes long. Where it stands still it does so for ever."""


TAKING = """
from tidegate.checkpoints.locks import acquire
declare()
acquire(folder, "numbers")
sys.exit(9)
"""
"""As a job that needs its driver's lock, and then ends."""


@dataclass
class Heard(News):
    """The news, kept."""

    failures: list[Failure] = field(default_factory=list[Failure])
    unkept: list[TidegateError] = field(default_factory=list[TidegateError])

    def failed(self, failure: Failure) -> None:
        self.failures.append(failure)

    def history_failed(self, error: TidegateError) -> None:
        self.unkept.append(error)


@pytest.fixture
def _short_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_START_SECONDS", 0.0)


def supervise(folder: Path, program: str, news: News, *settings: str) -> Ending:
    """Run the program to its end, with a driver that is started again at once and for ever."""
    file = folder / "program.py"
    file.write_text(COUNT + DECLARING + program)
    always = ["restart.strategy=fixed-delay", "restart.fixed_delay.attempts=100", "restart.fixed_delay.delay=100ms"]
    environment = {**os.environ, OVERRIDES_VARIABLE: json.dumps([*always, *settings])}
    known = load_settings({}, environment=environment)
    return Supervisor([str(file), str(folder)], known, environment=environment, news=news).run()


@pytest.mark.usefixtures("_short_starts")
def test_a_start_that_takes_long_and_moves_is_left_alone(tmp_path: Path):
    news = Heard()
    program = f'{STARTING}steps("1", "2", "3", "4", "5", "6")\nsys.exit(9)'
    assert supervise(tmp_path, program, news, "progress_timeout=2s").code == 9
    assert (len(starts(tmp_path)), news.failures) == (1, [])


@pytest.mark.usefixtures("_short_starts")
def test_a_start_that_goes_round_in_a_circle_stands_still(tmp_path: Path):
    """As one that tries the same commit again and again."""
    news = Heard()
    program = f'if not first:\n    sys.exit(9)\n{STARTING}steps("1", *["2"] * 600)'
    assert supervise(tmp_path, program, news, "progress_timeout=2s").code == 9
    assert len(starts(tmp_path)) == 2
    (stalled,) = news.failures
    assert stalled.code == "TG-DRIVER-STALLED"
    assert "the last step of its start was: 2" in stalled.what


def test_a_job_that_another_driver_keeps_is_refused_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cures, "_A_MINUTE_SECONDS", 1.0)
    news = Heard()
    with acquire(tmp_path / "checkpoints" / "numbers", "numbers"):
        assert exit_of(supervise(tmp_path, TAKING, news)) == 4
    assert {failure.code for failure in news.failures} == {"TG-DRIVER-ALIVE"}
    assert len(news.failures) >= 2
    assert f"process {os.getpid()} on" in news.failures[-1].what


def test_a_dying_driver_is_waited_for(tmp_path: Path):
    dying = acquire(tmp_path / "checkpoints" / "numbers", "numbers")

    class Dies(Heard):
        def failed(self, failure: Failure) -> None:
            super().failed(failure)
            dying.release()

    news = Dies()
    assert supervise(tmp_path, TAKING, news).code == 9
    assert [failure.code for failure in news.failures] == ["TG-DRIVER-ALIVE"]
