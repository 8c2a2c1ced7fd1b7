"""Two threads of one run at the decision, and a kill between *done* and *finished_through*."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.test_finish_choose import OFFSETS, QUERY, STATELESS, prepared
from tidegate.core import effects as fx
from tidegate.core.errors import Code, TidegateError
from tidegate.core.finish import catch_up, decide
from tidegate.core.finish_steadily import decide_and_look
from tidegate.core.ledger import START, read_finished, read_finished_through
from tidegate.core.next_steps import Remedy
from tidegate.core.records import Decided, Done, Run, Start, decode, digest_of, encode

RUN = Run(run=1, token="t", host="h", process=1, since="now")


class Files(dict[str, bytes]):
    """The files of a query, and what happens to them right after a put of another thread."""

    def after_put(self) -> None:
        """Nothing happens."""

    def run(self, steps: fx.Steps[Any]) -> Any:
        result: Any = None
        while True:
            try:
                effect = steps.send(result)
            except StopIteration as stop:
                return stop.value
            result = self._perform(effect)

    def _perform(self, effect: fx.Effect) -> Any:
        match effect:
            case fx.Get(name) | fx.Peek(name) | fx.Recall(name):
                return self.get(name)
            case fx.List(folder):
                return [name.rpartition("/")[2] for name in self if name.rpartition("/")[0] == folder]
            case fx.PutIfAbsent(name, data):
                created = self.setdefault(name, data) is data
                self.after_put()
                return created
            case fx.Replace(name, data):
                self[name] = data
            case fx.Delete(name):
                self.pop(name, None)
            case _:
                pass
        return None


def opened() -> Files:
    start = Start(job_id="j0", generation=0, first_epoch=3, sources=("source",), sinks=("a", "b"))
    record, _ = prepared(1)
    return Files(
        {
            START: encode(start),
            "spark/offsets/3": OFFSETS,
            "spark/commits/3": STATELESS,
            "ledger/prepared/3.1": record,
            "ledger/runs/1": encode(RUN),
        }
    )


def finished_by(digest: str) -> type[Files]:
    class FinishedMeanwhile(Files):
        def after_put(self) -> None:
            self["ledger/done/3"] = encode(Done(epoch=3, run=1, prepared_digest=digest))

    return FinishedMeanwhile


def test_the_finisher_may_be_quicker_than_the_thread_that_decided() -> None:
    files = finished_by(digest_of(prepared(1)[0]))(opened())
    assert files.run(decide(QUERY, 3)) == decode(Decided, files["ledger/decided/3"], "decided/3")


def test_a_decision_that_another_thread_made_meanwhile_is_obeyed_though_spark_has_purged_its_entry() -> None:
    class DecidedMeanwhile(Files):
        """While this thread reads the prepared records, the next epoch has begun: it decided, and Spark purged."""

        def _perform(self, effect: fx.Effect) -> Any:
            if effect == fx.Get("spark/offsets/3") and "ledger/decided/3" not in self:
                self["ledger/decided/3"] = encode(decision)
                del self["spark/offsets/3"], self["spark/commits/3"]
            return super()._perform(effect)

    decision = opened().run(decide(QUERY, 3))
    assert DecidedMeanwhile(opened()).run(decide(QUERY, 3)) == decision


def test_a_decision_that_came_after_the_epoch_was_finished_otherwise_is_withdrawn() -> None:
    files = finished_by("another")(opened())
    assert files.run(decide(QUERY, 3)) is None
    assert "ledger/decided/3" not in files


def succeeded_by(finished_with: str) -> Files:
    """A newer run exists when the decision of this one is put, and has finished the epoch."""

    class FinishedBySuccessor(Files):
        def after_put(self) -> None:
            self["ledger/done/3"] = encode(Done(epoch=3, run=2, prepared_digest=finished_with))
            self["ledger/runs/2"] = encode(RUN)

    return FinishedBySuccessor(opened())


def test_a_living_run_that_decides_too_late_withdraws_its_decision_and_stops() -> None:
    files = succeeded_by("another")
    with pytest.raises(TidegateError) as caught:
        files.run(decide_and_look(QUERY, RUN, 3))
    assert caught.value.catalogue_entry is Code.RUN_SUPERSEDED
    assert "ledger/decided/3" not in files


def test_a_decision_that_its_successor_has_obeyed_stays_and_the_run_stops() -> None:
    files = succeeded_by(digest_of(prepared(1)[0]))
    with pytest.raises(TidegateError) as caught:
        files.run(decide_and_look(QUERY, RUN, 3))
    assert caught.value.catalogue_entry is Code.RUN_SUPERSEDED
    assert "ledger/decided/3" in files


def test_a_run_with_a_successor_commits_nothing_of_a_decision_that_it_has_only_read() -> None:
    files = opened()
    files.run(decide(QUERY, 3))
    files["ledger/runs/2"] = encode(RUN)
    with pytest.raises(TidegateError) as caught:
        files.run(decide_and_look(QUERY, RUN, 3))
    assert caught.value.catalogue_entry is Code.RUN_SUPERSEDED


def test_a_query_without_its_start_is_refused() -> None:
    with pytest.raises(TidegateError) as caught:
        Files().run(read_finished())
    assert caught.value.catalogue_entry is Code.RECORD_CORRUPT


def test_a_kill_between_done_and_finished_through_forgets_nothing() -> None:
    files = opened()
    files.run(decide(QUERY, 3))
    digest = digest_of(files["ledger/prepared/3.1"])
    files["ledger/done/3"] = encode(Done(epoch=3, run=1, prepared_digest=digest))
    files.run(catch_up(QUERY, RUN))
    record = files.run(read_finished_through())
    assert record is not None
    assert record.epoch == 3


def test_the_newest_commits_entry_that_is_away_for_a_moment_is_no_hole() -> None:
    """An older driver, still alive, has renamed it to see whether it is torn: the next start finds it."""
    files = opened()
    del files["spark/commits/3"]
    with pytest.raises(TidegateError) as caught:
        files.run(decide(QUERY, 3))
    assert caught.value.catalogue_entry is Code.EPOCH_TORN
    assert caught.value.catalogue_entry.remedy is Remedy.RESTART


def test_a_commits_entry_that_is_missing_below_a_later_one_is_a_hole() -> None:
    files = opened()
    files["spark/commits/4"] = files.pop("spark/commits/3")
    with pytest.raises(TidegateError) as caught:
        files.run(decide(QUERY, 3))
    assert caught.value.catalogue_entry is Code.LEDGER_HOLE


def test_a_commits_entry_that_was_put_back_meanwhile_counts() -> None:
    class PutBack(Files):
        """It is there again when the log is listed."""

        def _perform(self, effect: fx.Effect) -> Any:
            found = super()._perform(effect)
            if effect == fx.Get("spark/commits/3"):
                self["spark/commits/3"] = STATELESS
            return found

    files = PutBack(opened())
    del files["spark/commits/3"]
    assert files.run(decide(QUERY, 3)) == decode(Decided, files["ledger/decided/3"], "decided/3")
