"""State without unique names in a generation that continues a sealed one: it is as the sealed one's records say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.test_state_proof import Generation
from tidegate.core.errors import TidegateError
from tidegate.core.ledger import DECIDED, entry
from tidegate.core.records import JobRecord, Run, Sealed, encode
from tidegate.savepoints.continued import Continuing, open_continuation

OLDER = JobRecord(name="job", job_id="0f1e2d3c", generation=1)
NEWER = JobRecord(name="job", job_id="0f1e2d3c", generation=2)
RUN = Run(run=1, token="0a", host="host", process=1, since="now")


@pytest.fixture
def sealed(tmp_path: Path) -> Generation:
    """Three epochs, and a seal; then a driver that was paused has written a snapshot."""
    generation = Generation(tmp_path)
    generation.begin_run(-1)
    for epoch in range(3):
        generation.finish(epoch)
    generation.ledger.put_if_absent(entry(DECIDED, 3), encode(Sealed(epoch=3)))
    generation.write("0/3.snapshot", "of a late writer")
    return generation


def test_a_continued_generation_takes_the_state_that_the_records_name(sealed: Generation) -> None:
    go_on(sealed)
    spark = sealed.spark.parent.parent / "g2/spark"
    found = sorted(path.relative_to(spark / "state/0").as_posix() for path in spark.rglob("state/*/*/*"))
    assert found == [f"{store}/{version}.delta" for store in range(2) for version in (1, 2, 3)]


def test_a_continued_generation_refuses_state_that_was_written_over(sealed: Generation) -> None:
    sealed.write("1/2.delta", "of a late writer")
    with pytest.raises(TidegateError) as caught:
        go_on(sealed)
    assert caught.value.code == "TG-STATE-OVERWRITTEN"
    assert caught.value.where == str(sealed.spark / "state/0/1/2.delta")


def go_on(sealed: Generation) -> None:
    folder = sealed.folder.parent.parent.parent
    open_continuation(Continuing(job_folder=folder, older=OLDER, newer=NEWER, run=RUN))
