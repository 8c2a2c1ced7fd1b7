"""Orders to the endpoint of `examples/http_endpoint.py`. With `unproven` each write has a key of its own, and the
endpoint is not asked whether it has an epoch."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.session import small_session
from tidegate import FileSource, Job
from tidegate.sink_api import Committable, DecidedEpoch, Evidence, WriteAheadSink

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True, slots=True)
class _Keyed:
    number: int
    key: str


class Unproven(WriteAheadSink):
    def __init__(self, uid: str, to: Any) -> None:
        super().__init__(uid)
        self._to = to

    def publish(self, epoch: DecidedEpoch, batches: Iterable[pa.RecordBatch]) -> None:
        self._to.publish(_Keyed(epoch.number, secrets.token_hex()), batches)

    def evidence(self, committable: Committable) -> Evidence:
        return Evidence.ABSENT


def main(folder: Path, url: str, proving: str) -> None:
    os.environ["PYTHONPATH"] += os.pathsep + str(EXAMPLES)  # the tasks import the sink from there
    spark = small_session()
    sys.path.append(str(EXAMPLES))
    sink: WriteAheadSink = import_module("http_endpoint").HttpSink("endpoint", url)
    rows = FileSource(str(folder / "in"), format="json", schema="value long", maxFilesPerTrigger=1)
    job = Job("orders", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    orders = job.source("rows", rows).selectExpr("value AS id", "value % 97 AS price")
    job.query("send", orders, sinks=[sink if proving == "proving" else Unproven("endpoint", sink)])
    job.run(until="caught-up")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
