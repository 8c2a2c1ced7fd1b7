"""State that is missing, torn, or of another program: told by its code and file, and nothing is started again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.integration.place import Place, run
from tests.support.today import turn
from tidegate import PrintSink, TidegateError
from tidegate.spark.state.fault import state_fault
from tidegate.storages.schemes import Folder


@turn(2, of=3)
@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_a_file_of_state_that_is_gone_is_named(place: Place, backend: str):
    count_words(place, backend)
    for gone in [path for path in state(place).glob("0/?/1*") if path.suffix in (".changelog", ".delta")]:
        gone.unlink()
    place.write("b")
    with pytest.raises(TidegateError) as caught:
        count_words(place, backend)
    assert caught.value.code == "TG-STATE-DAMAGED"
    assert f"{state(place)}/0/" in caught.value.where
    assert f"{place.checkpoints}/job/checkpoints" in caught.value.next_step


def test_a_file_of_state_that_is_cut_is_told_from_a_process_that_was_killed(place: Place):
    """Spark gives the error of a schema that ends too early no condition and no text."""
    count_words(place, "rocksdb")
    cut = state(place) / "0/0/_metadata/schema"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    (cut.parent / f".{cut.name}.crc").unlink()
    place.write("b")
    with pytest.raises(TidegateError) as caught:
        count_words(place, "rocksdb")
    assert caught.value.code == "TG-STATE-DAMAGED"
    assert "operator 0 (stateStoreSave)" in caught.value.where


def test_both_sides_of_a_difference_are_shown(place: Place):
    count_words(place, "rocksdb")
    errors: Any = jvm(place.spark).org.apache.spark.sql.execution.streaming.state.StateStoreErrors
    thrown = errors.stateStoreKeySchemaNotCompatible("(word STRING)", "(word BIGINT)")
    wrapped = jvm(place.spark).java.lang.RuntimeException("of a task", thrown)
    fault = state_fault(wrapped, "query q", Folder.of(place.query()), {"0": "counts"})
    assert fault is not None
    assert fault.code == "TG-STATE-MISMATCH"
    assert "(word STRING)" in fault.expected
    assert "(word BIGINT)" in fault.found
    assert fault.where == "query q, operator 0 (stateStoreSave, uid counts)"
    assert state_fault(jvm(place.spark).java.io.EOFException(), "query q", Folder.of(place.query()), {}) is None


def count_words(place: Place, backend: str) -> None:
    """Count what is new, in a state store that is opened anew."""
    if not list(place.input.iterdir()):
        place.write("a", "b")
    jvm(place.spark).org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    job = place.job(state_backend=backend)
    counts = place.words(job).groupBy("word").agg(F.count("*").alias("n"))
    job.query("query", counts, mode="update", sinks=[PrintSink("out")])
    run(job)


def state(place: Place) -> Path:
    return place.query() / "spark" / "state"


def jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
