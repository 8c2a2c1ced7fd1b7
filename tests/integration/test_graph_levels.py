"""Each alignment of checkpoints with each `delivery` of a sink: what the tables in `docs/guarantees.md` say."""

from __future__ import annotations

import time
from collections import Counter
from itertools import count

import pytest
from pyspark.sql import functions as F

from tests.house.graph_levels import COMBINATIONS, GraphSettings, is_aligned
from tests.integration.place import Place, error_of, run, wait_until
from tests.integration.test_levels import FailingSink
from tests.support.feeding import repeated
from tests.support.today import sampled
from tidegate import Job, Restore, SQLiteSink
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.checkpoints.succession import standing
from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import CheckpointRecord, JobRecord
from tidegate.savepoints.cut import demand_cut
from tidegate.storages.schemes import Folder

CASES = [
    pytest.param(each, delivery, id=f"{number}-{each.mode.value}-{delivery.value if delivery else 'as the mode'}")
    for number, (each, delivery) in enumerate(COMBINATIONS)
]


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("settings", "delivery"), sampled(CASES, every=2, on=1))
def test_a_sink_shows_what_its_delivery_says_and_a_restored_state_has_what_the_alignment_says(
    place: Place, settings: GraphSettings, delivery: Level | None
) -> None:
    """Every word is written once. So a word that the sink has twice as the first one of its kind was shown again, and
    one that is the second of its kind is in the state twice.
    """
    words = Words(place, settings, delivery)
    words.write()
    run(words.job())
    words.write()
    words.failing.broken = True
    assert error_of(lambda: run(words.job())).catalogue_entry is Code.EPOCH_FAILED
    words.failing.broken = False
    run(words.job())
    shown = Counter(place.table("rows"))
    is_repeated = settings.shown_by(delivery).level is not Level.EXACTLY_ONCE
    assert max(shown.values()) == (2 if is_repeated else 1)
    assert set(shown) == {(word, 1) for word in words.written}

    number = words.checkpoint_that_tells()
    back = Restore(str(place.checkpoints / "job" / "checkpoints" / str(number)), rewind="once")
    words.job().start(until="caught-up", savepoint=back).wait()
    rows = place.table("rows")
    assert {word for word, _ in rows} == words.written
    assert max(times for _, times in rows) == (2 if settings.repeats(2) else 1)


class Words:
    """A fast and a slow query pass words on to one that counts them, in a sink with this delivery."""

    def __init__(self, place: Place, settings: GraphSettings, delivery: Level | None) -> None:
        self.written: set[str] = set()
        self.failing = FailingSink("failing", delivery="at-least-once")
        self._place = place
        self._settings = settings
        self._delivery = None if delivery is None else delivery.value
        self._numbers = count()

    def write(self) -> None:
        """One more file: of its words the slow query passes one on."""
        number = next(self._numbers)
        words = [f"{kind} {number}" for kind in ("fast", "quick", "slow")]
        self._place.write(*words)
        self.written |= set(words)

    def job(self) -> Job:
        @F.udf("string")
        def after_a_while(word: str) -> str:
            time.sleep(0.3)
            return word

        place, is_slow = self._place, "word LIKE 'slow%'"
        job = place.job("job", checkpointing_retained=40, **self._settings.given)
        words, fast, slow = job.channel("words"), job.channel("fast"), job.channel("slow")
        job.query("write", place.words(job, "lines"), sinks=[words])
        job.query("pass-fast", job.source("fast-words", words).where(f"NOT {is_slow}"), sinks=[fast])
        slowly = job.source("slow-words", words).where(is_slow).select(after_a_while("word").alias("word"))
        job.query("pass-slow", slowly, sinks=[slow])
        both = job.source("fast-in", fast).unionByName(job.source("slow-in", slow))
        rows = SQLiteSink("rows", place.folder / "out.db", table="rows", delivery=self._delivery)
        job.query("count", both.groupBy("word").count(), mode="update", sinks=[rows, self.failing])
        return job

    def checkpoint_that_tells(self) -> int:
        """A checkpoint that was taken under load. If the settings allow it, a reader does not stand at the barriers."""
        handle = self.job().start()
        try:
            with repeated(self.write, times=100, every_seconds=0.3):
                wait_until(self._telling, "a checkpoint that tells")
        finally:
            handle.cancel()
        return self._telling()[-1]

    def _telling(self) -> list[int]:
        folder = Folder.of(self._place.checkpoints / "job")
        job = standing(folder)
        assert job is not None
        found = [record for number in retained_numbers(folder) if (record := read_retained(folder, number))]
        under_load = [each for each in found if each.taken]
        if is_aligned(self._settings):
            return [each.number for each in under_load]
        return [each.number for each in under_load if not _stands_at_barriers(folder, job, each)]


def _stands_at_barriers(folder: Folder, job: JobRecord, checkpoint: CheckpointRecord) -> bool:
    try:
        demand_cut(folder, job, checkpoint.queries)
    except TidegateError:
        return False
    return True
