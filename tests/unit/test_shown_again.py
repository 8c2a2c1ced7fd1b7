"""Rows that a sink without evidence gets again are counted, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.unit.test_finish_choose import QUERY, prepared
from tests.unit.test_finish_race import RUN, Files, opened
from tidegate.core import effects as fx
from tidegate.core.finish import finish_epoch
from tidegate.core.happenings import RowsShownAgain
from tidegate.core.records import Answer, Attempt, Committable, Outcome, encode

REPEATING = replace(QUERY, repeating=frozenset({"a"}))
NEXT = msgspec.structs.replace(RUN, run=2)


class Counted(Files):
    """The sink answers one after the other. `again`: the rows that were told to be shown again."""

    def __init__(self, *answers: Outcome) -> None:
        super().__init__(opened())
        attempt = Attempt(sink=QUERY.sink("a"), run=1, run_token="t", epoch=3, task=0, task_attempt=0)
        committable = Committable(attempt=attempt, rows=7, digest="d")
        self["ledger/prepared/3.1"] = encode(msgspec.structs.replace(prepared(1)[1], committables=(committable,)))
        self.answers = list(answers)
        self.again: list[int] = []

    def _perform(self, effect: fx.Effect) -> Any:
        match effect:
            case fx.CommitSink():
                return self._answered()
            case fx.Tell(RowsShownAgain(rows=rows)):
                self.again.append(rows)
            case _:
                pass
        return super()._perform(effect)

    def _answered(self) -> Sequence[Answer]:
        return [Answer(outcome=self.answers.pop(0))]


@pytest.mark.parametrize(
    ("answers", "rows"),
    [
        ([Outcome.COMMITTED], []),
        ([Outcome.ALREADY], []),
        ([Outcome.RETRY, Outcome.COMMITTED], [7]),
        ([Outcome.RETRY, Outcome.ALREADY], []),
    ],
)
def test_rows_that_come_after_a_try_without_an_answer_may_be_there_twice(
    answers: list[Outcome], rows: list[int]
) -> None:
    files = Counted(*answers)
    files.run(finish_epoch(REPEATING, RUN, 3))
    assert files.again == rows


def test_rows_of_an_epoch_that_an_older_run_may_have_begun_to_commit_may_be_there_twice() -> None:
    files = Counted(Outcome.COMMITTED)
    files["ledger/runs/2"] = encode(NEXT)
    files.run(finish_epoch(REPEATING, NEXT, 3))
    assert files.again == [7]


def test_a_sink_with_evidence_shows_nothing_again() -> None:
    files = Counted(Outcome.RETRY, Outcome.COMMITTED)
    files.run(finish_epoch(QUERY, RUN, 3))
    assert files.again == []
