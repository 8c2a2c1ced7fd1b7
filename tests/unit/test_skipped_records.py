"""Lost records that a source has skipped are told once, by the epoch that has skipped them."""

from __future__ import annotations

from threading import Condition
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidegate.core.effects import Happening
from tidegate.core.happenings import EpochDone, RecordsSkipped
from tidegate.operate.positions import skipped_lines
from tidegate.spark.figures import Figures
from tidegate.spark.run_progress import RunProgress

STILL = '{"lines":{"0":9},"topic ids":{},"skipped records":{"lines":{"0":{"to":7,"records":2}}}}'
MOVED = '{"lines":{"0":12},"topic ids":{}}'
LATER = '{"lines":{"0":20},"topic ids":{},"skipped records":{"lines":{"0":{"to":19,"records":null}}}}'
WHAT = "topic lines: partition 0 to 7 (2 records lost)"
UNKNOWN = "topic lines: partition 0 to 19 (an unknown number of records lost)"


class Told(RunProgress):
    """A progress whose epochs end at given positions, and what it tells."""

    def __init__(self, *ends: tuple[tuple[str, str | None], ...]) -> None:
        self.told: list[Happening] = []
        self._epochs = ends
        plan = SimpleNamespace(query=SimpleNamespace(uid="query"))
        shared: Any = SimpleNamespace(changed=Condition())
        super().__init__(cast("Any", plan), cast("Any", None), shared, Figures(), self._listen)

    def _listen(self, _query: str, _run: int, happening: Happening) -> None:
        self.told.append(happening)

    def _note(self, happening: Happening) -> None:
        """Its figures are of no interest here."""

    def _ends(self, epoch: int) -> list[tuple[str, str | None]]:
        return list(self._epochs[epoch]) if epoch >= 0 else []

    def skips(self) -> list[tuple[int, str, str]]:
        for epoch in range(len(self._epochs)):
            self.tell(0, EpochDone(epoch, 1))  # as a recovery, too, which has no monitors
        return [(each.epoch, each.source, each.what) for each in self.told if isinstance(each, RecordsSkipped)]


def test_epochs_in_which_the_source_stands_still_say_nothing():
    progress = Told(*((("kafka", STILL), ("clicks", str(number))) for number in range(5)))
    assert progress.skips() == [(0, "kafka", WHAT)]


def test_a_later_skip_is_told_too():
    progress = Told((("kafka", STILL),), (("kafka", MOVED),), (("kafka", LATER),), (("kafka", LATER),))
    assert progress.skips() == [(0, "kafka", WHAT), (2, "kafka", UNKNOWN)]


def test_a_source_that_the_query_reads_twice_is_told_once():
    assert Told((("kafka", STILL), ("kafka", STILL))).skips() == [(0, "kafka", WHAT)]


@pytest.mark.parametrize("position", [None, "7", '"skipped records"', '{"skipped records": 3}', MOVED])
def test_other_positions_skip_nothing(position: str | None):
    assert skipped_lines(position) == []
