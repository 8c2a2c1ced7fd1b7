"""Functions with event-time timers that are drained, and such as the end of time is too much for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from tests.integration.place import Place, error_of, wait_until
from tests.integration.test_drain import counts, events, into_files, last_watermark, out, write_events
from tidegate import Job
from tidegate.checkpoints.drained import is_drained, read_drain
from tidegate.core.drain import END_OF_TIME_MS
from tidegate.storages.schemes import Folder

AN_HOUR_MS = 3_600_000


def timers_job(place: Place, *, beside: bool = False) -> Job:
    """How often a word came, told at its timer. While there is a file `again`, the timer is set again: by the clock of
    the function's own for `early`, by the watermark for `late`."""
    again = place.folder / "again"

    def remember(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        seen, last = state.get if state.exists else (0, 0)
        if state.hasTimedOut:
            if again.exists():
                by = {"early": last, "late": state.getCurrentWatermarkMs()}[again.read_text()]
                state.setTimeoutTimestamp(by + AN_HOUR_MS)
            yield pd.DataFrame({"word": [key[0]], "seen": [seen]})
            return
        for frame in frames:
            seen, last = seen + len(frame), max(last, int(frame["at"].max().timestamp() * 1000))
        state.update((seen, last))
        state.setTimeoutTimestamp(last + AN_HOUR_MS)

    job = place.job()
    if beside:
        into_files(place, job, counts(events(place, job).groupBy(F.window("at", "10 seconds"))), uid="beside")
    rows = events(place, job, "words").groupBy("word")
    told = rows.applyInPandasWithState(
        remember, "word string, seen long", "seen long, last long", "append", GroupStateTimeout.EventTimeTimeout
    )
    into_files(place, job, told)
    return job


def has_read(place: Place, files: int, uid: str = "query") -> bool:
    """Whether so many files are in epochs that are done."""
    done = place.log("ledger/done", uid)
    offsets = (place.query(uid) / "spark/offsets" / str(done[-1])).read_text() if done else ""
    return f'"logOffset":{files - 1},' in offsets


@pytest.mark.more
def test_a_function_that_the_end_of_time_is_too_much_for_takes_the_drain_back_and_the_job_goes_on(place: Place):
    again, folder = place.folder / "again", place.checkpoints / "job"
    again.write_text("early")
    write_events(place, "00:00:01", "00:00:02")
    handle = timers_job(place).start()
    wait_until(lambda: has_read(place, 1), "the first file")
    error = error_of(lambda: handle.stop(drain=True))
    assert (error.code, "INVALID_TIMEOUT_TIMESTAMP" in error.found) == ("TG-DRAIN-FAILS", True), error
    assert "the drain is withdrawn: the next start resumes where the job stopped" in error.next_step
    assert (read_drain(Folder.of(folder)), out(place)) == (None, [])
    assert last_watermark(place)[1] < END_OF_TIME_MS

    handle = timers_job(place).start()
    write_events(place, "00:00:03")
    wait_until(lambda: has_read(place, 2), "what came after the drain")
    again.unlink()
    handle.stop(drain=True)
    assert (is_drained(Folder.of(folder)), out(place)) == (True, [("sea", 3)])


@pytest.mark.more
def test_a_timer_that_is_set_again_at_the_end_of_time_is_not_waited_for(place: Place):
    (place.folder / "again").write_text("late")
    write_events(place, "00:00:01", "00:00:02")
    handle = timers_job(place).start()
    wait_until(lambda: has_read(place, 1), "the first file")
    handle.stop(drain=True)
    assert (is_drained(Folder.of(place.checkpoints / "job")), out(place)) == (True, [("sea", 2)])


@pytest.mark.more
def test_where_another_query_has_been_drained_there_is_no_way_back_and_the_drain_goes_on_when_all_is_mended(
    place: Place,
):
    again, folder = place.folder / "again", place.checkpoints / "job"
    again.write_text("early")
    write_events(place, "00:00:01", "00:00:02")
    handle = timers_job(place, beside=True).start()
    wait_until(lambda: has_read(place, 1) and has_read(place, 1, "beside"), "the first file")
    error = error_of(lambda: handle.stop(drain=True))
    assert (error.code, "another query is drained" in error.next_step) == ("TG-DRAIN-FAILS", True), error
    assert read_drain(Folder.of(folder)) is not None
    again.unlink()
    timers_job(place, beside=True).start().wait()
    assert (is_drained(Folder.of(folder)), out(place), out(place, "beside")) == (True, [("sea", 2)], [("00:00:00", 2)])
