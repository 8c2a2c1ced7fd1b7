"""How long the page keeps its readers waiting, and how often it reads the storage for them.

Fifty jobs with a history of 10,000 epochs each stand in one folder. The first view is that of all jobs. Each measured
view reads the jobs anew: the views before it have grown old. The storage reads are counted by the server's own read
calls to the kernel, by one reader and by a hundred that look as fast as they can.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

from bench.figures import Better, Figure
from bench.page_load import free_port
from tidegate.core.records import JobRecord, encode
from tidegate.operate import TimedPhase
from tidegate.operate.beat import Beat, JobState, QueryBeat, write_beat
from tidegate.operate.checkpoints_history import ENTRIES_KEPT, CheckpointsHistory
from tidegate.operate.done_checkpoint import DoneCheckpoint

JOBS = 50
_QUICK_SHARE = 10
_READERS = 100
_LOOK_SECONDS = 15.0
_GROWN_OLD_SECONDS = 2.5
_START_SECONDS = 60.0
_GOAL_WARM_MS, _GOAL_COLD_MS, _GOAL_READS = 200.0, 1_000.0, 1.5


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """Milliseconds of the first view from a warm process and from a new one; reads for many readers against one."""
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        _make_jobs(Path(folder), ENTRIES_KEPT // (_QUICK_SHARE if quick else 1))
        for number in range(rounds + 1):  # the first one brings the files into memory
            found = _round(folder, _LOOK_SECONDS / (_QUICK_SHARE if quick else 1))
            for what, value in found.items() if number else ():
                samples.setdefault(what, []).append(round(value, 2))
    return figures(samples)


def figures(samples: Mapping[str, list[float]]) -> list[Figure]:
    """From the samples of each round."""

    def figure(name: str, what: str, value: float, unit: str, goal: float, *keys: str) -> Figure:
        kept = {key: samples[key] for key in keys}
        return Figure(name=name, what=what, value=value, unit=unit, better=Better.LOWER, goal=goal, samples=kept)

    one, many = median(samples["one reader, reads a minute"]), median(samples["many readers, reads a minute"])
    warm, cold = median(samples["warm ms"]), median(samples["cold ms"])
    jobs = f"{JOBS} jobs with {ENTRIES_KEPT:,} epochs each"
    return [
        figure(
            "page-warm",
            f"first view of {jobs}, from a warm process",
            warm,
            "ms",
            _GOAL_WARM_MS,
            "warm ms",
        ),
        figure(
            "page-cold",
            f"first view of {jobs}, from the start of `tidegate ui` on",
            cold,
            "ms",
            _GOAL_COLD_MS,
            "cold ms",
        ),
        figure(
            "page-reads",
            f"read calls of the server a minute, for {_READERS} readers of the view of all jobs against one of them",
            round(many / one, 2),
            "x",
            _GOAL_READS,
            "one reader, reads a minute",
            "many readers, reads a minute",
        ),
    ]


def _round(folder: str, look_seconds: float) -> dict[str, float]:
    port = free_port()
    begun = time.perf_counter()
    with _served(folder, port) as process:
        _until_it_answers(port, begun)
        found = {"cold ms": (time.perf_counter() - begun) * 1000}
        time.sleep(_GROWN_OLD_SECONDS)
        begun = time.perf_counter()
        _view(port)
        found["warm ms"] = (time.perf_counter() - begun) * 1000
        for readers, name in ((1, "one reader"), (_READERS, "many readers")):
            calls = _read_calls(process)
            _look(port, readers, look_seconds)
            found[f"{name}, reads a minute"] = (_read_calls(process) - calls) / look_seconds * 60
    return found


def _look(port: int, readers: int, seconds: float) -> None:
    """So many readers look for so many seconds, each four times a second."""
    end = time.monotonic() + seconds

    def reader(_: int) -> None:
        while time.monotonic() < end:
            _view(port)
            time.sleep(0.25)

    with ThreadPoolExecutor(readers) as pool:
        list(pool.map(reader, range(readers)))


@contextmanager
def _served(folder: str, port: int) -> Generator[int]:
    line = [str(Path(sys.executable).with_name("tidegate")), "ui", "--dir", folder, "--port", str(port)]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


def _view(port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS)
    try:
        connection.request("GET", "/jobs/cards")
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200 or text.count(b'"last_checkpoint":{') != JOBS:
            raise RuntimeError(f"{answer.status}: {text[:500]!r}")
    finally:
        connection.close()


def _until_it_answers(port: int, begun: float) -> None:
    while True:
        with suppress(ConnectionError):
            _view(port)
            return
        if time.perf_counter() - begun > _START_SECONDS:
            raise RuntimeError("the page does not answer")
        time.sleep(0.01)


def _read_calls(process: int) -> int:
    """Read calls of a process so far, of files; those of sockets are `recv`, which is counted elsewhere (proc(5))."""
    return int(Path(f"/proc/{process}/io").read_text().split("syscr: ")[1].split("\n")[0])


def _make_jobs(folder: Path, epochs: int) -> None:
    now = time.time()
    phases = dict.fromkeys(TimedPhase, 12.5)
    done = [
        DoneCheckpoint(
            query="query", epoch=number, run=1, at=now - epochs + number, duration_ms=100.0, rows=10, phases=phases
        )
        for number in range(epochs)
    ]
    for number in range(JOBS):
        job = folder / f"job-{number}"
        (job / "locks").mkdir(parents=True)
        record = JobRecord(name=job.name, job_id=f"{number:08x}", generation=1)
        (job / "job.json").write_bytes(encode(record))
        query = QueryBeat(uid="query", run=1, epoch=epochs, finished=epochs, rows=10, rows_per_second=100.0)
        beat = Beat(
            job=job.name,
            job_id=record.job_id,
            state=JobState.FINISHED,
            host="host",
            process=1,
            started_at=now,
            at=now,
            progress_at=now,
            queries=(query,),
        )
        write_beat(job, beat)
        CheckpointsHistory(job).add(done)
