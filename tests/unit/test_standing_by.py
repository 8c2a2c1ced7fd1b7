"""A standby at the start of its job: what it asks before it waits, and when it takes over."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.core.fingerprints import NOTHING_ALLOWED
from tidegate.settings.config import Settings
from tidegate.spark import standing_by, supervised
from tidegate.spark.job_plan import DeclaredJob
from tidegate.spark.old_declaration import Again, Unanswerable
from tidegate.spark.standing_by import stand_by
from tidegate.spark.supervised import Role, Supervised
from tidegate.supervise.line import (
    CannotTakeOver,
    FromDriver,
    Line,
    Ready,
    TakeOver,
    line_to_driver,
    line_to_supervisor,
)


class Standing:
    """A standby in this process, and its supervisor's end of the line. `noted`: what has happened, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.line, theirs = line_to_driver()
        self.standby = Supervised(line_to_supervisor({"TIDEGATE_SUPERVISED": str(theirs.detach())}), Role.STANDBY)
        self.noted: list[str] = []
        monkeypatch.setattr(supervised, "_current", self.standby)
        monkeypatch.setattr(standing_by, "rehearse", lambda *_: self.noted.append("rehearses"))

    def stand_by(self, *answers: str | Exception | None) -> None:
        """Answer the only question of the declaration with one after the other."""
        left = iter(answers)

        def question() -> str | None:
            self.noted.append("asks")
            answer = next(left)
            if isinstance(answer, Exception):
                raise answer
            return answer

        stand_by(declared(question))

    def listen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A driver without a supervisor ends its process; here it would end the tests."""
        monkeypatch.setattr(supervised, "_end_hard", lambda: None)
        monkeypatch.setattr(self.standby, "_end", lambda _seconds: None)
        self.standby.listen()

    def hang_up(self) -> None:
        """As a supervisor that is killed."""
        with socket.socket(fileno=os.dup(self.line.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Wait for the thread that hears the end of the line."""
        self.hang_up()
        for thread in threading.enumerate():
            if thread.name in ("tidegate-supervised", "tidegate-orphaned"):
                thread.join(10)
        cast("Line[Any]", self.standby._line).close()
        self.line.close()

    def hears(self) -> list[FromDriver]:
        return self.line.heard()


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Standing]:
    made = Standing(monkeypatch)
    yield made
    made.close()


def declared(*questions: Again) -> DeclaredJob:
    nothing: Any = None
    return DeclaredJob(
        name="numbers",
        session=nothing,
        settings=Settings(),
        queries=(),
        registry=nothing,
        inputs={},
        uids=frozenset(),
        listeners=(),
        allowed=NOTHING_ALLOWED,
        asked=questions,
    )


def when_ready(standing: Standing, then: Callable[[], None]) -> threading.Thread:
    """Receive messages as the supervisor does, and act when the standby is ready."""

    def receive() -> None:
        while Ready() not in (standing.line.hear() or [Ready()]):
            pass
        standing.noted.append("is ready")
        then()

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    return thread


def test_a_standby_asks_again_when_it_takes_over(standing: Standing, monkeypatch: pytest.MonkeyPatch):
    standing.listen(monkeypatch)
    when_ready(standing, lambda: standing.line.say(TakeOver()))
    standing.stand_by(None, None)
    assert standing.noted == ["asks", "rehearses", "is ready", "asks"]
    assert standing.standby.role is Role.DRIVER
    stand_by(declared())  # the second job of the same program waits for nothing


@pytest.mark.parametrize(
    "answer",
    [
        "source words: its columns have changed",
        TidegateError(Code.SOURCE_REFUSED, expected="x", found="its columns have changed", where="y", next_step="z"),
    ],
    ids=["a difference", "an error"],
)
def test_a_standby_with_another_answer_makes_room(
    standing: Standing, monkeypatch: pytest.MonkeyPatch, answer: str | TidegateError
):
    standing.listen(monkeypatch)
    when_ready(standing, lambda: standing.line.say(TakeOver()))
    with pytest.raises(SystemExit):
        standing.stand_by(None, answer)
    (refusal,) = standing.hears()
    assert isinstance(refusal, CannotTakeOver)
    assert "its columns have changed" in refusal.why


def test_a_question_that_cannot_be_asked_again_is_said_before_it_waits(standing: Standing):
    with pytest.raises(SystemExit):
        standing.stand_by(Unanswerable("query q reads a table"))
    assert standing.noted == ["asks"]
    assert standing.hears() == [CannotTakeOver("query q reads a table")]


def test_a_standby_that_is_needed_before_it_is_ready_does_not_rehearse(
    standing: Standing, monkeypatch: pytest.MonkeyPatch
):
    standing.line.say(TakeOver())
    standing.listen(monkeypatch)
    end = threading.Event()
    while not standing.standby.is_taken_over:
        end.wait(0.01)
    standing.stand_by(None, None)
    assert standing.noted == ["asks", "asks"]


def test_a_standby_without_a_supervisor_ends(standing: Standing, monkeypatch: pytest.MonkeyPatch):
    standing.listen(monkeypatch)
    when_ready(standing, standing.hang_up)
    with pytest.raises(KeyboardInterrupt):
        standing.stand_by(None)
    assert standing.standby.role is Role.STANDBY


def test_a_driver_does_not_stand_by(standing: Standing, monkeypatch: pytest.MonkeyPatch):
    standing.standby.role = Role.DRIVER
    standing.stand_by()
    monkeypatch.setattr(supervised, "_current", None)
    standing.stand_by()
    assert standing.noted == []
