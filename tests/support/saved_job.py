"""A job's folder as it stands while it runs, written by hand: one query with hashmap state. Run as a program it takes
a savepoint and kills itself at a step: FOLDER INTO STEP."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tidegate.core.ledger import DECIDED, FINISHED_THROUGH, START, Query, entry
from tidegate.core.records import Decided, FinishedThrough, JobRecord, OperatorFingerprint, SinkProgress, Start, encode
from tidegate.savepoints.hold import RunningQuery
from tidegate.savepoints.running_job import RunningJob
from tidegate.savepoints.take import take
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder

QUERY = Query(job="job", job_id="0f1e2d3c", generation=1, uid="query", sources=("in",), sinks=("out",))
RECORD = JobRecord(name="job", job_id="0f1e2d3c", generation=1)
OPERATOR = (
    'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},'
    '"stateStoreInfo":[{"storeName":"default","numColsPrefixKey":0,"numPartitions":1}]}'
)
_CONF = (
    '{"spark.sql.streaming.stateStore.providerClass":'
    '"org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",'
    '"spark.sql.shuffle.partitions":"1"}'
)


def write_job(folder: Path, *, through: int = 3) -> RunningJob:
    """Epochs up to `through` are done."""
    write(folder, "spark/metadata", '{"id":"x"}')
    write(folder, "spark/state/0/_metadata/metadata", OPERATOR)
    start = Start(
        job_id="0f1e2d3c",
        generation=1,
        first_epoch=0,
        sources=("in",),
        sinks=("out",),
        fingerprints=(OperatorFingerprint(number=0, uid="", compared={"aggregate functions": "sum(v)"}),),
    )
    LocalStorage(query_folder(folder)).put_if_absent(START, encode(start))
    for epoch in range(through + 1):
        finish(folder, epoch)
    return running(folder)


def running(folder: Path, reach: Callable[[str], None] = lambda _step: None, epochs_kept: int = 10) -> RunningJob:
    return RunningJob(
        Folder.of(folder), RECORD, [RunningQuery(QUERY, Folder.of(query_folder(folder)), epochs_kept)], reach
    )


def finish(folder: Path, epoch: int, position: str = "") -> None:
    """One more epoch, which ends at `position` of its source: what Spark writes, then what the ledger does."""
    begin(folder, epoch, position)
    write(folder, f"spark/commits/{epoch}", commits(epoch))
    ledger = LocalStorage(query_folder(folder))
    decided = Decided(
        epoch=epoch,
        run=1,
        prepared_digest="7f" * 32,
        offsets=offsets(epoch, position).encode(),
        commits=commits(epoch).encode(),
        state_rows={"0": 10 + epoch},
    )
    ledger.put_if_absent(entry(DECIDED, epoch), encode(decided))
    reached = FinishedThrough(epoch=epoch, sinks={"out": SinkProgress(epoch=epoch, digest="5d" * 32)})
    ledger.replace(FINISHED_THROUGH, encode(reached))


def begin(folder: Path, epoch: int, position: str = "") -> None:
    """An epoch that Spark has computed, and that nobody has decided."""
    write(folder, f"spark/offsets/{epoch}", offsets(epoch, position))
    write(folder, f"spark/state/0/0/{epoch + 1}.delta", f"state {epoch + 1}")


def offsets(epoch: int, position: str = "") -> str:
    end = position or f'{{"logOffset":{epoch}}}'
    return f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{_CONF}}}\n{end}'


def commits(epoch: int) -> str:
    return f'v1\n{{"nextBatchWatermarkMs":{epoch * 1000}}}'


def query_folder(folder: Path) -> Path:
    return folder / "queries" / "query" / "g1"


def write(folder: Path, name: str, text: str) -> None:
    path = query_folder(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_where_nobody_can_list(folder: Path) -> None:
    """A file so deep below `folder` that its folder has no path the system takes: nobody can list it, not even root."""
    name, depth = "x" * 200, 25
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=descriptor)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(os.open("1.delta", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor))
    os.close(descriptor)


def main() -> None:
    folder, into, fatal = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

    def reach(step: str) -> None:
        if step == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    take(running(folder, reach), "fixed", into)


if __name__ == "__main__":
    main()
