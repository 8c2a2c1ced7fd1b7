"""Money moves through a diamond of four queries: one takes it from accounts, two pass it on for a fee, one pays it out.

    withdraw --moved--> even --left----> pay
                   \\--> odd  --right--/

Arguments: a folder with the input `in`; settings of the job as JSON; `forever` or `caught-up`; what to restore as JSON
of `Restore`, if anything. With a `checkpointing_dir` among the settings the payments are beside it. With `servers`
among them the channels are over Kafka, each in the topic `<topics>-<channel>`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from tests.support.session import small_session
from tidegate import FileSink, FileSource, Job, KafkaChannel, Restore

OPENED_WITH = 1000
FEE = 1
CHANNELS = ("moved", "left", "right")
_MOVED = "account long, amount long"

Turn = Callable[[Any, Iterator[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]


def main(folder: Path, settings: str, until: str, restored: str | None = None) -> None:
    given: dict[str, Any] = {"checkpointing_dir": str(folder / "checkpoints"), **json.loads(settings)}
    checkpoints = str(given["checkpointing_dir"])
    # Of S3 the session of tidegate has the jars: a program that makes its own brings them.
    spark = None if checkpoints.startswith("s3:") else small_session(spark_sql_shuffle_partitions="2")
    servers, topics = given.pop("servers", None), given.pop("topics", "")
    job = Job("bank", spark=spark, **given)
    moved, left, right = (
        job.channel(uid, None if servers is None else KafkaChannel(servers, f"{topics}-{uid}", key="account"))
        for uid in CHANNELS
    )
    orders = FileSource(str(folder / "in"), format="json", schema=_MOVED, maxFilesPerTrigger=4)
    job.query("withdraw", kept(job.source("orders", orders), withdraw), sinks=[moved])
    even = job.source("moved-even", moved).where("account % 2 = 0")
    job.query("even", kept(even, pass_on_slowly), sinks=[left])
    odd = job.source("moved-odd", moved).where("account % 2 = 1")
    job.query("odd", kept(odd, pass_on), sinks=[right])
    both = job.source("left-in", left).unionByName(job.source("right-in", right))
    job.query("pay", kept(both, pay), sinks=[FileSink("paid", paid_beside(checkpoints), format="json")])
    back = None if restored is None else msgspec.json.decode(restored, type=Restore)
    job.start(until="caught-up" if until == "caught-up" else None, savepoint=back).wait()


def paid_beside(checkpoints: str) -> str:
    """The folder of the payments, on the storage of the checkpoints."""
    return f"{checkpoints}-paid"


def kept(rows: DataFrame, turn: Turn) -> DataFrame:
    """Each account has a balance in this query."""
    by_account = rows.groupBy(F.col("account"))
    return by_account.applyInPandasWithState(turn, _MOVED, "balance long", "append", GroupStateTimeout.NoTimeout)


def withdraw(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    balance = state.get[0] if state.exists else OPENED_WITH
    for frame in frames:
        balance -= int(frame["amount"].sum())
        yield frame
    state.update((balance,))


def pass_on(_key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    fees = state.get[0] if state.exists else 0
    for frame in frames:
        fees += FEE * len(frame)
        yield frame.assign(amount=frame["amount"] - FEE)
    state.update((fees,))


def pass_on_slowly(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    time.sleep(0.5)
    yield from pass_on(key, frames, state)


def pay(_key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    balance = state.get[0] if state.exists else 0
    for frame in frames:
        balance += int(frame["amount"].sum())
        yield frame
    state.update((balance,))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
