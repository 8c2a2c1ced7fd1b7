"""A driver that is killed while it drains a job at somebody's request: the next start ends what it has begun."""

from __future__ import annotations

import threading

import pytest

from tests.crash.test_due_window import PROGRAM, windows, write_events
from tests.crash.windows_program import windows_job
from tests.integration.place import Place, wait_until
from tests.jobs.folders import tidegate
from tests.support.driver import Driver, numbers
from tidegate.checkpoints.drained import is_drained
from tidegate.storages.schemes import Folder

POINTS = (
    "heal.entry.after@1",
    "sync.before@1",
    "prepared.after@1",
    "commit.before@1",
    "commit.after@1",
    "done.after@1",
)


@pytest.mark.more
@pytest.mark.parametrize("point", POINTS)
def test_a_drain_that_was_cut_off_is_ended_by_the_next_start(place: Place, point: str):
    """The first driver is killed; the next one is this process, in the suite's session."""
    write_events(place.folder, 0, "00:00:01", "00:00:06")
    folder, log = place.folder / "checkpoints", place.folder / "log"
    query, program = folder / "windows/queries/windows/g1", (PROGRAM, str(place.folder), "false")
    answers: list[tuple[int, str]] = []
    with Driver(*program, "for-ever", log=log, failpoints=f"{point}=crash") as killed:
        wait_until(lambda: (query / "ledger/done/0").exists(), "the first epoch done")
        ask = ("stop", "windows", "--drain", "--dir", str(folder))
        asker = threading.Thread(target=lambda: answers.append(tidegate(*ask)))
        asker.start()
        killed.wait()
        asker.join()
    assert answers[0][0] == 1, answers
    assert "nothing is lost" in answers[0][1]
    assert not is_drained(Folder.of(folder / "windows"))

    write_events(place.folder, 1, "00:00:07")
    windows_job(place.folder, place.spark).start().wait()
    assert windows(place.folder) == {1: [("00:00:00", 2)]}, "once; what came after the request is not read"
    assert numbers(query / "ledger/done")[-1] == 1
    assert is_drained(Folder.of(folder / "windows"))
