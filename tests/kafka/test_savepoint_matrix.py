"""Every kind of state goes on from a savepoint, in every sink, in more, as many or fewer partitions, after a stop and
after a kill: every row once, and the state row by row what it was. They run with `-m more`."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.integration.conftest import spark  # noqa: F401  # pyright: ignore[reportUnusedImport] (a fixture)
from tests.integration.place import Place, setting, wait_until, wait_until_finished
from tests.kafka.saved_kinds import KINDS, job_of
from tests.kafka.seen import visible_now
from tests.support.driver import Driver
from tidegate import Job
from tidegate.core.records import SavedQuery
from tidegate.savepoints.folder import open_savepoint, verify
from tidegate.settings.kinds import Backend
from tidegate.spark.query_conf import FORMAT_KEY, STORES
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic

PROGRAM = Path(__file__).with_name("saved_program.py")
CHANGES = {"up": (2, 5), "same": (3, 3), "down": (4, 2)}
SINKS = ("table", "files", "topic")
CELLS = list(itertools.product(KINDS, CHANGES, SINKS, ("stop", "kill")))


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:  # noqa: F811 (the fixture)
    return Place(tmp_path, spark)


@pytest.mark.more  # one of each rule is in tests/integration
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kind", "change", "sink", "end"), CELLS)
def test_a_job_goes_on_from_a_savepoint_exactly(
    place: Place, broker: Broker, kind: str, change: str, sink: str, end: str
):
    before, after = CHANGES[change]
    topic = make_topic(broker.servers)

    def job(partitions: int) -> Job:
        return job_of(place.spark, place.folder, kind, sink, partitions, broker.servers, topic)

    place.write(*KINDS[kind].first)
    if end == "stop":
        path = stopped_with_a_savepoint(place, job(before))
    else:
        path = killed_behind_a_savepoint(place, kind, sink, str(before), broker.servers, topic)
    checkpoint, (query,) = path / "queries/query/spark", open_savepoint(path).record.queries
    saved = state(place, checkpoint, kind, query)
    for rows in KINDS[kind].later[len(list(place.input.iterdir())) - 1 :]:
        place.write(*rows)
    job(after).start(until="caught-up", savepoint=path).wait()

    wanted = Counter(json.dumps(row, sort_keys=True) for row in KINDS[kind].wanted)
    assert seen(place, sink, broker.servers, topic) == wanted
    goes_on = place.query().with_name("g2") / "spark"
    assert (len(saved), state(place, goes_on, kind, query)) == (KINDS[kind].state, saved)
    assert partitions(checkpoint) == ([] if kind == "stateless" else [before])
    assert partitions(goes_on) == ([] if kind == "stateless" else [after])
    assert verify(open_savepoint(path)) == []


def stopped_with_a_savepoint(place: Place, job: Job) -> Path:
    handle = job.start()
    wait_until_finished(handle, 0)
    path = handle.stop_with_savepoint(place.folder / "saved", id="one")
    assert path is not None
    return path


def killed_behind_a_savepoint(place: Place, kind: str, *arguments: str) -> Path:
    """The driver dies with the next epoch prepared and not decided."""
    taken = place.folder / "taken"
    given = (str(place.folder), kind, *arguments)
    with Driver(PROGRAM, *given, log=place.folder / "log", failpoints="prepared.after@1=crash") as driver:
        wait_until(lambda: taken.exists() or driver.process.poll() is not None, "a savepoint")
        assert taken.exists(), driver.tail()
        place.write(*KINDS[kind].later[0])
        assert driver.wait() == -9, driver.tail()
    return Path(taken.read_text())


def state(place: Place, checkpoint: Path, kind: str, query: SavedQuery) -> list[str]:
    """Every row of state behind the saved epoch, by Spark's own reader, but for the partition that it is in."""
    variable = KINDS[kind].variable
    found: list[str] = []
    with setting(place.spark, FORMAT_KEY, STORES[Backend.ROCKSDB].checkpoint_format):
        for operator, store in ((each, store) for each in query.operators for store in each.stores):
            options: dict[str, Any] = {"batchId": query.done.epoch, "operatorId": operator.number}
            options |= {"storeName": store} if variable is None else {"stateVarName": variable}
            rows = place.spark.read.format("statestore").options(**options).load(str(checkpoint))
            written = rows.select(F.to_json(F.struct("key", "value"))).collect()
            found += [f"{operator.number} {store} {row[0]}" for row in written]
    return sorted(found)


def partitions(checkpoint: Path) -> list[int]:
    """How many of them each operator has, by its folders."""
    operators = sorted((checkpoint / "state").iterdir()) if (checkpoint / "state").is_dir() else []
    return [sum(each.name.isdigit() for each in operator.iterdir()) for operator in operators]


def seen(place: Place, sink: str, servers: str, topic: str) -> Counter[str]:
    """Every row that readers see, and how often."""
    match sink:
        case "table":
            with closing(sqlite3.connect(place.folder / "out.db")) as database:
                rows = [row for (row,) in database.execute("SELECT row FROM rows")]
        case "files":
            rows = [row["row"] for each in place.files().values() for row in each]
        case _:
            rows = [json.loads(row.value or b"")["row"] for row in visible_now(servers, topic)]
    return Counter(json.dumps(json.loads(row), sort_keys=True) for row in rows)
