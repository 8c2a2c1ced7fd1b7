"""State goes with the uid of its operator, wherever in the plan that stands: a program is changed and goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Literal, cast

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

from tests.integration.place import Place, Row, error_of, wait_until_finished
from tests.integration.test_restore import Counter, run_from
from tests.integration.test_state_change import counted_by_hand
from tests.support.today import turn
from tidegate import Job, Restore, SQLiteSink, uid
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.ledger import DECIDED, entry
from tidegate.core.records import Decided, StatefulOperator, decode
from tidegate.savepoints.folder import open_savepoint
from tidegate.savepoints.query import operators_of
from tidegate.settings.kinds import Backend
from tidegate.spark.query_conf import FORMAT_KEY, PROVIDER_KEY, STORES
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.state.plan import describe_planned, operators_planned
from tidegate.storages.local.storage import LocalStorage

ROCKSDB = {PROVIDER_KEY: STORES[Backend.ROCKSDB].provider, FORMAT_KEY: STORES[Backend.ROCKSDB].checkpoint_format}


def timed(place: Place, job: Job) -> DataFrame:
    return place.source(job, "events", "at timestamp, word string, n int").withWatermark("at", "10 seconds")


def joined(events: DataFrame) -> DataFrame:
    other = events.select(F.col("word").alias("same"), F.col("at").alias("then"))
    return events.join(other, F.expr("word = same AND then >= at AND then <= at + interval 1 minute"), "left_outer")


def by_hand(events: DataFrame) -> DataFrame:
    schema = "word string, n long"
    return events.groupBy("word").applyInPandasWithState(
        counted_by_hand, schema, "n long", "Update", GroupStateTimeout.NoTimeout
    )


def custom(events: DataFrame) -> DataFrame:
    return events.groupBy("word").transformWithStateInPandas(Counter(), "word string, n long", "Update", "None")


KINDS: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "count": (lambda events: events.groupBy("word").count(), "stateStoreSave"),
    "total": (lambda events: events.groupBy().count(), "stateStoreSave"),
    "windows": (lambda events: events.groupBy(F.window("at", "5 seconds"), "word").count(), "stateStoreSave"),
    "sliding": (lambda events: events.groupBy(F.window("at", "6 seconds", "2 seconds")).count(), "stateStoreSave"),
    "sessions": (
        lambda events: events.groupBy(F.session_window("at", "5 seconds"), "word").count(),
        "sessionWindowStateStoreSaveExec",
    ),
    "once": (lambda events: events.dropDuplicates(["word", "at"]), "dedupe"),
    "distinct": (lambda events: events.distinct(), "dedupe"),
    "lately": (lambda events: events.dropDuplicatesWithinWatermark(["word"]), "dedupeWithinWatermark"),
    "join": (joined, "symmetricHashJoin"),
    "by-hand": (by_hand, "applyInPandasWithState"),
    "custom": (custom, "transformWithStateInPandasExec"),
    "limit": (lambda events: events.limit(5), "globalLimit"),
}


def planned(place: Place, rows: DataFrame, mode: str = "append") -> dict[str, str]:
    """By uid, the kind of each stateful operator as Spark plans the query."""
    plan = cast("QueryPlan", SimpleNamespace(query="query", rows=rows, mode=mode, conf=ROCKSDB))
    return {each.uid: each.name for each in operators_planned(place.spark, plan)}


@turn(1, of=2)
@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_of_any_kind_keeps_its_uid_in_sparks_plan(place: Place, kind: str):
    """Below what Spark's optimizer moves, merges and leaves out around it."""
    operator, name = KINDS[kind]
    rows = uid("right", operator(timed(place, place.job())))
    around = rows.select("*", F.lit(1).alias("one")).where("one = 1").withColumn("two", F.col("one") + 1)
    mode = "update" if kind in ("count", "total", "by-hand", "custom") else "append"
    assert planned(place, around, mode) == {"right": name}


def test_operators_of_one_plan_have_a_uid_each(place: Place):
    events = timed(place, place.job())
    once = uid("once", events.dropDuplicatesWithinWatermark(["word", "n"]).where("n > 0"))
    windows = uid("windows", once.groupBy(F.window("at", "5 seconds"), "word").count())
    longer = uid("longer", windows.groupBy(F.window(F.window_time("window"), "1 minute")).agg(F.sum("count")))
    assert planned(place, longer.select("window.start")) == {
        "once": "dedupeWithinWatermark",
        "windows": "stateStoreSave",
        "longer": "stateStoreSave",
    }


def test_operators_of_one_kind_are_told_apart_by_their_place(place: Place):
    """By what Spark says of their state: the number is that of the left side, then that of the right one."""
    events = timed(place, place.job())
    left = uid("left", events.dropDuplicates(["word", "at"]))
    right = uid("right", events.dropDuplicates(["n", "at"]).select(F.col("n").alias("m"), F.col("at").alias("then")))
    rows = left.join(right, F.expr("n = m AND at = then")).select("word").union(events.select("word"))
    plan = cast("QueryPlan", SimpleNamespace(query="query", rows=rows, mode="append", conf=ROCKSDB))
    named = [each for each in operators_planned(place.spark, plan) if each.uid]
    schemas = {each.uid: schema_of(place, plan, each.number) for each in named}
    assert ("word" in schemas["left"], "word" in schemas["right"]) == (True, False)


def schema_of(place: Place, plan: QueryPlan, operator: int) -> str:
    """The key that Spark has described for the state of an operator."""
    checkpoint = place.folder / f"described-{operator}"
    checkpoint.mkdir()
    describe_planned(place.spark, plan, ROCKSDB, checkpoint)
    return (checkpoint / f"state/{operator}/0/_metadata/schema").read_bytes().decode(errors="replace")


def test_a_limit_that_spark_does_not_count_has_no_uid(place: Place):
    limited = uid("first", timed(place, place.job()).select("word").limit(5))
    assert error_of(lambda: planned(place, limited, "update")).code == "TG-QUERY-REFUSED"


def test_what_has_no_operator_on_top_or_another_uid_gets_none(place: Place):
    job = place.job()
    events = timed(place, job)
    assert error_of(lambda: uid("none", events.where("n > 0"))).code == "TG-QUERY-REFUSED"
    assert error_of(lambda: uid("both", events.union(events))).code == "TG-QUERY-REFUSED"
    assert error_of(lambda: uid("no name", events.distinct())).code == "TG-UID-INVALID"
    counts = uid("counts", events.groupBy("word").count())
    uid("counts", counts.select("word"))  # the same once more
    assert error_of(lambda: uid("sums", counts)).code == "TG-UID-DUPLICATE"
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    assert error_of(lambda: job.query("counts", counts, mode="update", sinks=[table])).code == "TG-UID-DUPLICATE"
    twice = uid("twice", events.dropDuplicates(["word", "at"]))
    other = twice.select(F.col("word").alias("same"), F.col("at").alias("then"))
    itself = twice.join(other, F.expr("word = same AND at = then"))
    assert error_of(lambda: job.query("query", itself, sinks=[table])).code == "TG-UID-DUPLICATE"


# --- a program that is changed -------------------------------------------------------------------------------


def counting(
    place: Place,
    change: Callable[[DataFrame], DataFrame],
    backend: str = "rocksdb",
    partitions: int = 2,
    mode: Literal["append", "update"] = "append",
) -> Job:
    """Rows (at, word, n) through operators into a table that takes any row."""
    job = place.job(state_backend=backend, parallelism=str(partitions))
    rows = change(timed(place, job)).select(F.to_json(F.struct("*")).alias("row"))
    job.query("query", rows, mode=mode, sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
    return job


def event(at: str, word: str, n: int) -> Row:
    return {"at": f"2026-01-01T00:{at}", "word": word, "n": n}


def sums(events: DataFrame) -> DataFrame:
    """Of a word in ten seconds, when they have closed."""
    summed = events.groupBy(F.window("at", "10 seconds"), "word").agg(F.sum("n").alias("sum"))
    return uid("sums", summed)


def once(events: DataFrame) -> DataFrame:
    return uid("once", events.dropDuplicates(["word", "n", "at"]))


def most(summed: DataFrame) -> DataFrame:
    """Of the sums of a minute."""
    minutes = F.window(F.window_time("window"), "1 minute")
    return uid("most", summed.groupBy(minutes.alias("minute")).agg(F.max("sum").alias("most"))).select("most")


def rows_of(place: Place) -> list[str]:
    return [row for (row,) in place.table()]


@turn(3, of=4)
@pytest.mark.parametrize(
    ("before", "after", "format"),
    [
        (("rocksdb", 2), ("rocksdb", 2), "native"),
        pytest.param(("hashmap", 2), ("hashmap", 2), "native", marks=pytest.mark.more),
        pytest.param(("rocksdb", 2), ("rocksdb", 3), "native", marks=pytest.mark.more),
        pytest.param(("hashmap", 2), ("rocksdb", 3), "native", marks=pytest.mark.more),
        pytest.param(("rocksdb", 2), ("hashmap", 1), "canonical", marks=pytest.mark.more),
    ],
)
def test_state_goes_on_behind_an_operator_that_is_put_before_and_one_that_is_put_behind(
    place: Place, before: tuple[str, int], after: tuple[str, int], format: Literal["native", "canonical"]
):
    """Spark numbers them from the last one: the sums are operator 0 in the savepoint, and 1 of 3 in the program."""
    place.write(event("00:01", "sea", 1), event("00:01", "wind", 2))
    path = saved(place, counting(place, sums, *before), format)
    assert [(each.number, each.uid) for each in operators_in(path)] == [(0, "sums")]
    place.write(event("00:02", "sea", 3), event("00:02", "sea", 3), event("00:02", "wind", 5))

    def changed(events: DataFrame) -> DataFrame:
        return most(sums(once(events)))

    run_from(counting(place, changed, *after), path)
    assert [(each.number, each.uid) for each in operators_now(place)] == [(0, "most"), (1, "sums"), (2, "once")]
    place.write(event("00:02", "sea", 3), event("00:03", "sea", 4))
    run_from(counting(place, changed, *after), path)  # started again: from its own checkpoint
    assert rows_of(place) == []
    place.write(event("59:00", "late", 1))
    run_from(counting(place, changed, *after), path)
    assert rows_of(place) == ['{"most":8}'], "1 of the savepoint, 3 and 4 once: more than the 7 of the wind"


@turn(0, of=2)
def test_an_operator_that_was_put_before_is_taken_out_again_where_somebody_allows_it(place: Place):
    place.write(event("00:01", "sea", 1), event("00:01", "sea", 1))
    path = saved(place, counting(place, lambda events: most(sums(once(events)))))
    place.write(event("00:01", "sea", 1), event("59:00", "late", 1))
    error = error_of(lambda: run_from(counting(place, sums), path))
    assert (error.code, "once (dedupe)" in error.expected) == ("TG-RESTORE-UNMATCHED", True)
    run_from(counting(place, sums), Restore(str(path), allow_non_restored_of=("query",)))
    assert [json.loads(row)["sum"] for row in rows_of(place)] == [2]


def test_who_would_have_to_guess_refuses(place: Place):
    """Two of one kind in the program, and one without a uid in the savepoint."""
    place.write(event("00:01", "sea", 1))

    def first(events: DataFrame) -> DataFrame:
        return events.dropDuplicates(["word", "n", "at"])

    path = saved(place, counting(place, first))
    two = counting(place, lambda events: uid("other", first(once(events))))
    error = error_of(lambda: run_from(two, path))
    assert (error.code, "tidegate.uid" in error.next_step) == ("TG-RESTORE-OPERATORS", True)
    place.write(event("00:01", "sea", 1), event("00:02", "sea", 1))
    run_from(counting(place, once), path)  # of one it can be no other
    assert [json.loads(row)["n"] for row in rows_of(place)] == [1, 1]


@pytest.mark.more
def test_operators_that_change_places_and_names_take_their_state_along(place: Place):
    """Of one kind and one schema, so that only their uids tell them apart."""

    def two(first: str, second: str) -> Callable[[DataFrame], DataFrame]:
        def change(events: DataFrame) -> DataFrame:
            seas, winds = (events.where(F.col("word").startswith(kind)).select("word", "n") for kind in ("sea", "wind"))
            named = {"seas": seas, "winds": winds, "lulls": winds}
            left, right = (uid(name, named[name].dropDuplicates(["word"])) for name in (first, second))
            return left.union(right)

        return change

    place.write(event("00:01", "sea", 1), event("00:01", "wind", 1))
    path = saved(place, counting(place, two("seas", "winds")))
    place.write(event("00:02", "sea", 2), event("00:02", "wind", 2), event("00:02", "windy", 2))
    plain = counting(place, two("winds", "seas"))
    assert error_of(plain.start).code == "TG-RESTORE-OPERATORS", "Spark would see no difference"
    run_from(counting(place, two("lulls", "seas")), Restore(str(path), renamed={"winds": "lulls"}))
    rows = ['{"word":"sea","n":1}', '{"word":"wind","n":1}', '{"word":"windy","n":2}']
    assert rows_of(place) == rows, "what each had seen it sees no more"


@pytest.mark.more
def test_custom_state_goes_on_under_another_number(place: Place):
    """And beside an operator that is new, of which it cannot be."""

    def counted(events: DataFrame) -> DataFrame:
        return uid("counted", custom(events))

    def first(events: DataFrame) -> DataFrame:
        return once(events).select("word", "n").union(counted(events))

    def changed(events: DataFrame) -> DataFrame:
        return counted(events).union(once(events).select("word", F.col("n").cast("long")))

    place.write(event("00:01", "sea", 1))
    path = saved(place, counting(place, first, mode="update"))
    assert [(each.number, each.uid) for each in operators_in(path)] == [(0, "once"), (1, "counted")]
    new = counting(place, lambda events: uid("new", custom(once(events))), mode="update")
    error = error_of(lambda: run_from(new, Restore(str(path), allow_non_restored_state=True)))
    assert (error.code, "new (transformWithState" in error.found) == ("TG-RESTORE-OPERATORS", True)
    place.write(event("00:01", "sea", 1))
    run_from(counting(place, changed, mode="update"), path)
    assert [(each.number, each.uid) for each in operators_now(place)] == [(0, "counted"), (1, "once")]
    assert rows_of(place) == ['{"word":"sea","n":1}', '{"word":"sea","n":1}', '{"word":"sea","n":2}']


def saved(place: Place, job: Job, format: Literal["native", "canonical"] = "native") -> Path:
    handle = job.start()
    wait_until_finished(handle, 0)
    path = handle.savepoint(place.folder / "saved", format=format)
    handle.stop()
    assert path is not None
    return path


def operators_in(path: Path) -> tuple[StatefulOperator, ...]:
    (query,) = open_savepoint(path).record.queries
    return query.operators


def operators_now(place: Place) -> tuple[StatefulOperator, ...]:
    """Those of the newest done epoch of the second generation."""
    ledger = LocalStorage(place.query().with_name("g2"))
    newest = max(entry_numbers(ledger.list(DECIDED)))
    decided = decode(Decided, ledger.read(entry(DECIDED, newest)) or b"", "")
    return operators_of(ledger.path("spark"), decided.operator_uids)
