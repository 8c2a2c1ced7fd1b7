"""How fast a savepoint of 1 GB is put on HDFS and on S3, against the store's own client with the same files.

The job counted a few keys and has ended. Beside its state are files of random bytes, 64 MiB each, as RocksDB makes them
of a large state: to fill a real one takes minutes, and the copy does not look into them. All sides read from the page
cache, and take turns. The client of HDFS is `hdfs dfs -put`, in a JVM that runs already. That of S3 is boto3's transfer
manager, with eight files at once and the parts of each side by side. Tidegate also computes the SHA-256 of each file.
The servers run on the same cores.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from bench.figures import Better, Figure
from bench.savepoint_job import JOB, QUERY, ended_job, fill, read_whole, settle
from bench.storage_servers import StorageServers, storage_servers
from tests.support.s3 import BUCKET
from tidegate.core.records import SavepointFormat
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.elsewhere import take_into
from tidegate.settings.reading import read_settings
from tidegate.spark.session import open_session
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

FILES, _QUICK_FILES = 16, 2
FILE_BYTES = 64 << 20
_KEYS = 2_000
_GOAL = 0.8
_BLOCK_BYTES = 1 << 20


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """A figure for each storage. A round before the others, without the large files, warms the JVM."""
    seconds: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, storage_servers(Path(folder)) as servers:
        session = open_session("bench", read_settings({}, {}))
        session.sparkContext.setLogLevel("OFF")
        try:
            place = Path(folder) / "job"
            fill(session, place, _KEYS)
            checkpoint = place / "checkpoints" / JOB / "queries" / QUERY / "g1" / "spark"
            for number in range(rounds + 1):
                if number == 1:
                    _add_state(checkpoint, _QUICK_FILES if quick else FILES)
                for storage, into in servers.folders().items():
                    put = partial(_CLIENTS[storage], session, servers, checkpoint)
                    for side, act in (("baseline", put), ("tidegate", partial(_take, session, place))):
                        taken = _timed(act, into / side, place, checkpoint)
                        open_storage(into).clear(side)
                        if number:
                            seconds.setdefault((storage, side), []).append(round(taken, 2))
            size_bytes = sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())
        finally:
            session.stop()
    return [
        figure_of(storage, size_bytes, seconds[storage, "baseline"], seconds[storage, "tidegate"], has_goal=not quick)
        for storage in _CLIENTS
    ]


def figure_of(storage: str, size_bytes: int, client: list[float], tidegate: list[float], *, has_goal: bool) -> Figure:
    """The speed of the savepoint divided by that of the client."""
    return Figure(
        name=f"storage-savepoint-{storage}",
        what=f"speed of a savepoint of {size_bytes / 1e6:,.0f} MB to {storage.upper()} against {_NAMES[storage]}",
        value=round(median(client) / median(tidegate), 2),
        unit="x",
        better=Better.HIGHER,
        goal=_GOAL if has_goal else None,
        samples={"baseline s": client, "tidegate s": tidegate},
    )


def _add_state(checkpoint: Path, files: int) -> None:
    with Path("/dev/urandom").open("rb") as random:
        for number in range(files):
            folder = checkpoint / "state" / "0" / str(number % 2) / "SSTs"
            folder.mkdir(exist_ok=True)
            with (folder / f"{number:06}.sst").open("wb") as file:
                for _ in range(FILE_BYTES // _BLOCK_BYTES):
                    file.write(random.read(_BLOCK_BYTES))


def _timed(act: Callable[[Folder], None], into: Folder, place: Path, checkpoint: Path) -> float:
    read_whole(checkpoint)
    settle(place)
    begun = time.perf_counter()
    act(into)
    return time.perf_counter() - begun


def _take(session: SparkSession, place: Path, into: Folder) -> None:
    take_into(ended_job(session, place), "bench", into, Copying(), SavepointFormat.NATIVE)


def _put_into_hdfs(session: SparkSession, _: StorageServers, checkpoint: Path, into: Folder) -> None:
    """`hdfs dfs -put`, without the start of its JVM."""
    gateway: Any = session.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    open_storage(into).put_if_absent("begun", b"")  # the folder has to be there
    arguments = gateway.new_array(gateway.jvm.String, 3)
    for index, argument in enumerate(("-put", str(checkpoint), str(into))):
        arguments[index] = argument
    shell = gateway.jvm.org.apache.hadoop.fs.FsShell(gateway.jvm.org.apache.hadoop.conf.Configuration())
    if shell.run(arguments) != 0:
        raise RuntimeError("hdfs dfs -put has failed")


def _put_into_s3(_: SparkSession, servers: StorageServers, checkpoint: Path, into: Folder) -> None:
    from boto3.s3.transfer import TransferConfig, create_transfer_manager

    with create_transfer_manager(servers.s3.client(), TransferConfig()) as manager:
        uploads = [
            manager.upload(str(path), BUCKET, f"{into.path.strip('/')}/{path.relative_to(checkpoint)}")
            for path in checkpoint.rglob("*")
            if path.is_file()
        ]
        for upload in uploads:
            upload.result()


_CLIENTS: dict[str, Callable[[SparkSession, StorageServers, Path, Folder], None]] = {
    "hdfs": _put_into_hdfs,
    "s3": _put_into_s3,
}
_NAMES = {"hdfs": "`hdfs dfs -put`", "s3": "boto3 with parallel parts"}
