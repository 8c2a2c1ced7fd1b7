"""Counts the money of a bank in one of its checkpoints, by the files alone: no code of the job reads them here.

The states are read by Spark's own reader of state stores, the rows of the channels by pyarrow, or by a consumer that
reads committed records. Arguments: the job's folder, an empty one, the brokers or nothing, and the numbers of retained
checkpoints, if not all. Prints what is in each, as JSON.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.support.session import small_session
from tidegate.testing.kafka.topics import TopicRecord, read_all, stable_ends

READS = {"even": {"moved": 0}, "odd": {"moved": 1}, "pay": {"left": None, "right": None}}
"""By query: the channels that it reads. 0: only rows of even accounts; 1: only of odd ones; None: all rows."""

ROCKSDB = "org.apache.spark.sql.execution.streaming.state"


@dataclass(frozen=True, slots=True)
class Money:
    """The money in one checkpoint. `opened`: how many accounts were opened, with 1000 each."""

    states: int
    flying: int
    opened: int

    @property
    def excess(self) -> int:
        """How much of it is there twice."""
        return self.states + self.flying - 1000 * self.opened


def money_in(job: Path, number: int, spark: SparkSession, scratch: Path, servers: str = "") -> Money:
    manifest = record(job / "checkpoints" / str(number) / "_metadata.json")
    states = opened = 0
    for done in manifest["queries"]:
        files = job / "checkpoints" / "held" / manifest["held_in"] / done["query"]
        balances = balances_of(files, done, manifest["held"][done["query"]], spark, scratch / done["query"])
        states += sum(balances)
        opened += len(balances) if done["query"] == "withdraw" else 0
    return Money(states, sum(flying(job, manifest, servers)), opened)


def balances_of(files: Path, done: Any, held: list[str], spark: SparkSession, into: Path) -> list[int]:
    """The balances in a query's state: its files and the two log entries of the epoch, as one checkpoint of Spark's."""
    for name in held:
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(files / name, into / name)
    for log in ("offsets", "commits"):
        (into / log).mkdir(exist_ok=True)
        (into / log / str(done["epoch"])).write_bytes(base64.b64decode(done[log]))
    rows = spark.read.format("statestore").option("batchId", done["epoch"]).load(str(into))
    return [row[0] for row in rows.selectExpr("value.groupState.balance").collect()]


def flying(job: Path, manifest: Any, servers: str) -> Iterator[int]:
    """The amounts between each reader's position and the barrier."""
    for done in manifest["queries"]:
        texts = base64.b64decode(done["offsets"]).decode().splitlines()[2:]
        for channel, rest in READS.get(done["query"], {}).items():
            [position] = [json.loads(text) for text in texts if text.startswith(f'{{"{channel}.')]
            for part, end in manifest["in_flight"].items():
                if part.split(".")[0] == channel:
                    place = job / "channels" / channel, part, position.get(part, 0), end
                    rows = in_topic(*place, servers) if servers else in_files(*place)
                    yield from (row["amount"] for row in rows if rest in (None, row["account"] % 2))


def unread(job: Path) -> dict[str, int]:
    """For each reader and each of its channels, how many rows its newest epoch has not read, by the logs alone."""
    left: dict[str, int] = {}
    for query, channels in READS.items():
        spark = job / "queries" / query / "g1" / "spark"
        epochs = numbers_in(spark / "commits")
        texts = (spark / "offsets" / str(epochs[-1])).read_text().splitlines()[2:] if epochs else []
        for channel in channels:
            [position] = [json.loads(text) for text in texts if text.startswith(f'{{"{channel}.')] or [{}]
            ends = newest_record(job, channel)["ends"]
            left[f"{query} reads {channel}"] = sum(ends.values()) - sum(position.values())
    return left


def withdrawn(job: Path) -> list[int]:
    """The amounts of all orders that the first query has passed on."""
    [(part, end)] = newest_record(job, "moved")["ends"].items()
    return [row["amount"] for row in in_files(job / "channels" / "moved", part, 0, end)]


def newest_record(job: Path, channel: str) -> Any:
    epochs = job / "channels" / channel / "epochs"
    numbers = numbers_in(epochs)
    return record(epochs / f"{numbers[-1]:012}") if numbers else {"ends": {}}


def numbers_in(folder: Path) -> list[int]:
    return sorted(int(each.name) for each in folder.iterdir() if each.name.isdigit()) if folder.is_dir() else []


def in_files(channel: Path, part: str, begin: int, end: int) -> Iterator[Any]:
    """The rows of an embedded channel between two numbers."""
    for name in sorted((channel / "epochs").iterdir()):
        epoch = record(name)
        for rows in epoch["rows"]:
            if rows["part"] == part:
                file = channel / "rows" / epoch["job_id"] / f"g{epoch['generation']}" / rows["journal"]["name"]
                yield from (row for number, row in enumerate(arrow_rows(file), rows["begin"]) if begin <= number < end)


def in_topic(channel: Path, part: str, begin: int, end: int, servers: str) -> Iterator[Any]:
    """The rows of a channel over Kafka between two numbers."""
    _, generation, partition = part.split(".")
    begun = record(channel / "begins" / generation)
    first = begun["offsets"].get(partition, 0)
    for each in records_of(servers, begun["topic"]):
        if each.partition == int(partition) and first + begin <= each.offset < first + end:
            yield json.loads(each.value or b"")


@cache
def records_of(servers: str, topic: str) -> list[TopicRecord]:
    """The committed ones, up to what a killed driver has left open."""
    return read_all(servers, topic, ends=stable_ends(servers, topic))


def arrow_rows(file: Path) -> list[dict[str, Any]]:
    with pa.OSFile(str(file), "rb") as source, pa.ipc.open_stream(source) as rows:
        return rows.read_all().to_pylist()


def record(path: Path) -> Any:
    """A record is a line about itself, and JSON."""
    return json.loads(path.read_text().split("\n", 1)[1])


def main(job: Path, scratch: Path, servers: str, *numbers: str) -> None:
    prefix = "spark.sql.streaming.stateStore"
    spark = small_session(
        **{
            f"{prefix}.providerClass": f"{ROCKSDB}.RocksDBStateStoreProvider",
            f"{prefix}.checkpointFormatVersion": "2",
            f"{prefix}.rocksdb.changelogCheckpointing.enabled": "true",
        }
    )
    counted = map(int, numbers) if numbers else numbers_in(job / "checkpoints")
    found = {each: asdict(money_in(job, each, spark, scratch / str(each), servers)) for each in counted}
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
