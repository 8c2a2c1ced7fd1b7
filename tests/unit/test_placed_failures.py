"""The place of a failure that no driver has reported: the last beat of the driver tells it."""

from __future__ import annotations

import time

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.operate.beat import Beat, JobState, QueryBeat
from tidegate.operate.reports import report_of
from tidegate.supervise import supervisor

DIED = TidegateError(Code.DRIVER_DIED, expected="a driver", found="none", where="job j", next_step="look")


@pytest.mark.parametrize(("epoch", "finished", "named"), [(296, 295, 296), (296, 296, None), (-1, -1, None)])
def test_a_killed_driver_has_failed_an_epoch_only_where_one_was_under_way(
    epoch: int, finished: int, named: int | None
) -> None:
    now = time.time()
    query = QueryBeat(uid="clicks", run=3, epoch=epoch, finished=finished, rows=0, rows_per_second=0.0)
    beat = Beat(
        job="j", job_id="0a0b0c0d", state=JobState.RUNNING, host="h", process=1, started_at=now, at=now,
        progress_at=now, queries=(query,),
    )  # fmt: skip
    placed = supervisor._placed(report_of(DIED), beat)  # pyright: ignore[reportPrivateUsage]
    assert (placed.query, placed.run, placed.epoch) == ("clicks", 3, named)
