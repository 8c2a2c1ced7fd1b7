"""What two executors of a standalone cluster cost, against the same two cores in one process: CPU time.

The map and the count of `kafka_throughput.py`, 200,000 events an epoch, with the checkpoint on HDFS on both sides. Each
side runs once, in processes of its own. The first epochs do not count: in them three JVMs compile the code that one
compiles locally. Then the CPU time of all their processes is taken epoch by epoch: driver, JVM, executors, Python
workers, and the daemons of the workers of the cluster. A round is two epochs. The broker and HDFS are not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import msgspec

from bench.cluster_program import Seen
from bench.figures import Better, Figure
from bench.kafka_cluster import PARTITIONS, events_topic, fast_broker
from bench.kafka_throughput import CASES
from bench.storage_servers import hdfs_server
from tests.support.standalone import StandaloneCluster
from tidegate.machine.class_archive import environment_to_make
from tidegate.supervise.session_processes import end_processes
from tidegate.testing.kafka.topics import make_topic

_EVENTS, _QUICK_EVENTS = 200_000, 10_000
WARM_UP, EPOCHS_A_ROUND = 12, 2
_GOAL = 1.05
_BOUND_SECONDS = 600.0
_SHOWN_CHARACTERS = 4000
_EQUAL = {"spark.executor.extraJavaOptions": "-XX:-UsePerfData", "spark.executor.memory": "1g"}
"""The executors of the tests compile little, to start quickly."""


@dataclass(frozen=True, slots=True)
class Side:
    """A master, and the sessions whose processes work for it beside those of the driver."""

    name: str
    master: str
    sessions: Sequence[int]


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """A figure for the map and one for the count."""
    events, epochs = (_QUICK_EVENTS if quick else _EVENTS), WARM_UP + rounds * EPOCHS_A_ROUND
    figures: list[Figure] = []
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder,
        fast_broker(Path(folder)) as broker,
        hdfs_server(Path(folder)) as hdfs,
    ):
        source = events_topic(broker.servers, events * epochs)
        cluster = StandaloneCluster(Path(folder) / "cluster", defaults=_EQUAL)
        try:
            cluster.start()
            sides = [Side("baseline", "local[2]", ()), Side("tidegate", cluster.url, cluster.workers)]
            for name in CASES:
                lines: dict[str, list[Seen]] = {}
                for side in sides:
                    out = make_topic(broker.servers, PARTITIONS, name="out")
                    checkpoints = f"{hdfs.uri}/{side.name}-{name}"
                    arguments = (name, broker.servers, source, out, checkpoints, str(events), *map(str, side.sessions))
                    lines[side.name] = _run(side, arguments, Path(folder), cluster.environment)
                    if name == "kafka-map" and (rows := sum(each.rows for each in lines[side.name])) != events * epochs:
                        raise ValueError(f"{side.name} wrote {rows} rows, not {events * epochs}")
                figures.append(figure_of(name, lines["baseline"], lines["tidegate"], has_goal=not quick))
        finally:
            cluster.stop()
    return figures


def figure_of(name: str, local: Sequence[Seen], cluster: Sequence[Seen], *, has_goal: bool) -> Figure:
    """CPU time of the cluster divided by that of the one process, of the epochs behind the warm-up."""
    samples: dict[str, list[float]] = {}
    for side, lines in (("baseline", local), ("tidegate", cluster)):
        marks = lines[WARM_UP - 1 :: EPOCHS_A_ROUND]
        pairs = list(pairwise(marks))
        samples[f"{side} CPU s"] = [round(after.cpu_seconds - before.cpu_seconds, 2) for before, after in pairs]
        samples[f"{side} s"] = [round(after.at - before.at, 2) for before, after in pairs]
    return Figure(
        name=f"storage-cluster-{name.removeprefix('kafka-')}",
        what=f"CPU time of two executors of a standalone cluster against `local[2]`: {CASES[name].what}",
        value=round(median(samples["tidegate CPU s"]) / median(samples["baseline CPU s"]), 2),
        unit="x",
        better=Better.LOWER,
        goal=_GOAL if has_goal else None,
        samples=samples,
    )


def _run(side: Side, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> list[Seen]:
    command = [sys.executable, "-m", "bench.cluster_program", *arguments]
    log = folder / f"{side.name}-{arguments[0]}.log"
    with log.open("wb") as told:
        program = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=told,
            start_new_session=True,
            env={
                **environment_to_make(os.environ),
                **environment,
                "PYSPARK_SUBMIT_ARGS": f"--master {side.master} pyspark-shell",
            },
        )
        try:
            printed, _ = program.communicate(timeout=_BOUND_SECONDS)
        finally:
            end_processes(program.pid, 0.0)  # with its JVM and its workers, where they have not ended
            ended = program.wait()
    if ended != 0:
        tail = log.read_text(encoding="utf-8", errors="replace")[-_SHOWN_CHARACTERS:]
        raise RuntimeError(f"{' '.join(command)} ended with {ended}\n{tail}")
    return [msgspec.json.decode(line, type=Seen) for line in printed.splitlines() if line.startswith(b"{")]
