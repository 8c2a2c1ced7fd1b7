"""How much time an epoch gets after tries that were cut off, and what is kept of them."""

from __future__ import annotations

import pytest

from tests.unit.test_finish_race import RUN, Files, opened
from tidegate.core.epoch_time import MOST_TIMES, forget_overdue, note_overdue, time_after, times_by_epoch
from tidegate.core.errors import TidegateError
from tidegate.core.ledger import OVERDUE, Query
from tidegate.core.records import Done, Run, encode

QUERY = Query(job="job", job_id="j0", generation=0, uid="query", sources=("source",), sinks=("a", "b"))


@pytest.mark.parametrize(
    ("timeout", "tried", "gets"),
    [
        (600.0, 600.0, 1200.0),
        (600.0, 1200.0, 2400.0),
        (600.0, 600.0 * 48, 600.0 * 64),
        (600.0, 600.0 * 64, 600.0 * 64),
        (3600.0, 600.0, 3600.0),  # somebody has raised the timeout
        (10.0, 600.0, 640.0),  # somebody has lowered it
    ],
)
def test_each_try_has_twice_the_time_of_the_one_before_up_to_a_bound(timeout: float, tried: float, gets: float):
    assert time_after(timeout, tried) == gets


def cut_off(files: Files, epoch: int, seconds: float, run: int) -> None:
    record = Run(run=run, token="t", host="h", process=1, since="now")
    files[f"ledger/runs/{run}"] = encode(record)
    files.run(note_overdue(QUERY, record, epoch, seconds))


def kept(files: Files) -> list[str]:
    return sorted(name for name in files if name.startswith(OVERDUE))


def test_a_try_that_was_cut_off_gives_its_epoch_more_time_and_no_other():
    files = opened()
    assert files.run(times_by_epoch(10.0)) == {}
    cut_off(files, 4, 10.0, run=1)
    cut_off(files, 4, 20.0, run=2)
    assert files.run(times_by_epoch(10.0)) == {4: 40.0}
    assert kept(files) == ["ledger/overdue/4.1", "ledger/overdue/4.2"]


def test_an_epoch_that_is_cut_off_for_ever_leaves_few_records():
    files, times = opened(), dict[int, float]()
    for run in range(1, 101):
        times = files.run(times_by_epoch(10.0))
        cut_off(files, 4, times.get(4, 10.0), run)
    assert times == {4: 10.0 * MOST_TIMES}
    assert len(kept(files)) == 7


def test_what_is_kept_of_an_epoch_goes_when_it_is_finished():
    files = opened()
    cut_off(files, 4, 10.0, run=1)
    cut_off(files, 5, 10.0, run=1)
    files.run(forget_overdue(4))
    assert kept(files) == ["ledger/overdue/5.1"]
    files["ledger/done/5"] = encode(Done(epoch=5, run=1, prepared_digest="d"))  # by a run that was killed then
    assert files.run(times_by_epoch(10.0)) == {}
    assert kept(files) == []


def test_a_run_that_is_no_longer_the_newest_says_nothing():
    files = opened()
    files["ledger/runs/2"] = files["ledger/runs/1"]
    with pytest.raises(TidegateError) as raised:
        files.run(note_overdue(QUERY, RUN, 4, 10.0))
    assert raised.value.code == "TG-RUN-SUPERSEDED"
    assert kept(files) == []
