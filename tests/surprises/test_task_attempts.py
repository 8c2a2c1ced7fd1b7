"""Tasks that are tried again, workers that are killed, partitions that come and go: one executor, two cores."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, run
from tests.support.today import turn
from tests.surprises.words import DrawsJob
from tidegate import FileSink, FileSource, Job, SQLiteSink

# --- attempts that fail ------------------------------------------------------------------------------------


@turn(0, of=3)
@pytest.mark.parametrize(("strike", "mode"), [("die", "exactly-once"), ("raise", "at-least-once")])
def test_an_attempt_that_fails_after_it_prepared_is_replaced_and_leaves_nothing(
    place: Place, strike: str, mode: str
) -> None:
    draws = DrawsJob(place, mode)
    place.write("sea", "sand", "wind")
    place.write("salt")
    run(draws.make())
    draws.prepared.post(strike)
    place.write("sea", "sand", "wind", "salt")
    shelf = draws.shelf
    run(draws.make(shelf=shelf))

    assert draws.flaws(dict.fromkeys(["sea", "sand", "wind", "salt"], 2)) == []
    assert sorted(passage.attempt for passage in draws.prepared.passages()) == [0, 0, 0, 0, 1]
    assert draws.leftovers() == []
    assert shelf.moods.visible_after == [1]


@turn(0, of=2)
@pytest.mark.parametrize("strike", ["die", "starve"])
def test_a_worker_that_is_killed_or_starved_while_it_computes_is_replaced(place: Place, strike: str) -> None:
    draws = DrawsJob(place)
    place.write("sea", "sand")
    run(draws.make())
    draws.computing("sand").post(strike)
    place.write("sea", "sand", "wind")
    run(draws.make())

    assert draws.flaws({"sea": 2, "sand": 2, "wind": 1}) == []
    assert [passage.attempt for passage in draws.computing("sand").passages()] == [0, 0, 1]
    assert draws.leftovers() == []


# --- state of other kinds ----------------------------------------------------------------------------------


def test_joins_duplicates_and_limits_write_their_state_once_and_go_on_with_it(place: Place) -> None:
    """Each has state of a shape of its own: four stores for a join, one partition for a limit."""

    def job() -> Job:
        made = place.job()
        left = place.words(made, "left").withColumn("side", F.lit("left"))
        right = place.words(made, "right").withColumnRenamed("word", "other")
        joined = left.join(right, F.col("word") == F.col("other")).select("word")
        table = SQLiteSink("pairs", place.folder / "out.db", table="pairs")
        made.query("joined", joined, sinks=[table])
        table = SQLiteSink("words", place.folder / "out.db", table="words")
        made.query("distinct", place.words(made, "all").dropDuplicates(["word"]), sinks=[table])
        table = SQLiteSink("first", place.folder / "out.db", table="first")
        made.query("limited", place.words(made, "some").limit(3), sinks=[table])
        return made

    for words in (["sea", "sand"], ["sea", "wind"]):
        place.write(*words)
        run(job())
    assert Counter(place.table("pairs")) == {("sea",): 4, ("sand",): 1, ("wind",): 1}
    assert place.table("words") == [("sand",), ("sea",), ("wind",)]
    assert len(place.table("first")) == 3


# --- partitions --------------------------------------------------------------------------------------------


def test_an_epoch_may_have_no_partition_or_many_more_than_there_are_cores(place: Place) -> None:
    """Files are read whole: an empty one gives an epoch without a single task."""

    def job(partitions: int | None, coalesced: bool = False) -> Job:
        made = place.job()
        words = place.words(made)
        if partitions is not None:
            words = words.coalesce(partitions) if coalesced else words.repartition(partitions)
        sinks = [
            SQLiteSink("table", place.folder / "out.db", table="words"),
            FileSink("files", place.folder / "out", format="json"),
        ]
        made.query("query", words, sinks=sinks)
        return made

    everything = [f"word{number:02d}" for number in range(30)]
    place.write(*everything[:10])
    place.write()
    run(job(7))
    place.write(*everything[10:20])
    place.write()
    run(job(1, coalesced=True))
    place.write()
    place.write(*everything[20:])
    run(job(None))

    assert [word for (word,) in place.table()] == everything
    assert place.words_out() == {0: everything[:10], 2: everything[10:20], 5: everything[20:]}
    assert place.log("ledger/done")[-1] == 5
    tasks = {len(list((place.folder / "out").glob(f"*-e{epoch:012d}-*"))) for epoch in (0, 2)}
    assert tasks == {7, 1}


# --- a backlog ---------------------------------------------------------------------------------------------


def test_a_backlog_is_one_large_epoch_whose_rows_do_not_come_by_the_driver(place: Place) -> None:
    """Spark ends a job whose results are larger than 1 MiB here; the rows of the backlog are four times that."""

    def job() -> Job:
        made = place.job()
        words = made.source("words", FileSource(str(place.input), format="json", schema="word string"))
        made.query("query", words, sinks=[FileSink("files", place.folder / "out", format="json")])
        return made

    place.write("sea")
    run(job())
    files, rows_a_file = 100, 40
    noise = random.Random(7)  # results are compressed
    for _ in range(files):
        place.write(*(noise.randbytes(500).hex() for _ in range(rows_a_file)))
    status = run(job())

    assert status.queries[0].rows == files * rows_a_file
    out = place.words_out()
    assert sorted(out) == [0, 1]
    assert len(out[1]) == len(set(out[1])) == files * rows_a_file
    assert (place.query() / "ledger" / "prepared").joinpath("1.2").stat().st_size < 1 << 20
