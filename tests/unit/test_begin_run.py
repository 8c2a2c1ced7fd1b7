"""A run that begins fences the earlier ones in the sinks whose rows are visible inside their epoch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.test_finish_choose import QUERY
from tests.unit.test_finish_race import Files
from tidegate.core import effects as fx
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import RUNS, entry
from tidegate.core.records import Run, encode
from tidegate.core.recover import finish_with_a_run, open_run

FENCING = replace(QUERY, fencing=("b",))
LATER = "the fence of run 9 of generation 3"


class Starts(Files):
    """Records the effects that sinks see. `stands`: the later run that the target of `b` names."""

    def __init__(self, stands: str | None = None) -> None:
        super().__init__()
        self.seen: list[fx.Effect] = []
        self.stands = stands

    def _perform(self, effect: fx.Effect) -> Any:
        match effect:
            case fx.Introduce():
                return "token", "host", 1, "now"
            case fx.ReadPosition() | fx.ListOpen():
                self.seen.append(effect)
                return [] if isinstance(effect, fx.ListOpen) else None
            case fx.BeginRun():
                self.seen.append(effect)
                return self.stands
            case fx.DiscardFrom():
                return 0
            case _:
                return super()._perform(effect)


def test_a_run_begins_after_all_evidence_was_compared_and_before_spark_starts() -> None:
    files = Starts()
    run = files.run(open_run(FENCING))
    names = [type(effect).__name__ for effect in files.seen]
    assert names == ["ReadPosition", "ReadPosition", "BeginRun", "ListOpen", "ListOpen"]
    assert files.seen[2] == fx.BeginRun("b", run.run, "token")


def test_other_sinks_are_not_asked() -> None:
    files = Starts()
    files.run(open_run(QUERY))
    assert not [effect for effect in files.seen if isinstance(effect, fx.BeginRun)]


def test_a_target_that_names_a_later_run_ends_the_start() -> None:
    with pytest.raises(TidegateError) as caught:
        Starts(LATER).run(open_run(FENCING))
    assert (caught.value.catalogue_entry, caught.value.found) == (Code.SINK_AHEAD, LATER)


def test_a_start_that_was_overtaken_meanwhile_is_superseded_and_accuses_nobody() -> None:
    class Overtaken(Starts):
        def _perform(self, effect: fx.Effect) -> Any:
            if isinstance(effect, fx.BeginRun):
                self[entry(RUNS, 2)] = encode(Run(run=2, token="n", host="h", process=2, since="now"))
            return super()._perform(effect)

    with pytest.raises(TidegateError) as caught:
        Overtaken(LATER).run(open_run(FENCING))
    assert caught.value.catalogue_entry is Code.RUN_SUPERSEDED


def test_a_command_that_finishes_epochs_fences_nobody() -> None:
    """It writes no rows, and what it commits may be of the run before."""
    files = Starts()
    files.run(open_run(FENCING))
    files.seen.clear()
    files.run(finish_with_a_run(FENCING))
    assert not [effect for effect in files.seen if isinstance(effect, fx.BeginRun)]
