"""What a hundred readers of live events cost a job: the CPU time of its driver for an epoch, with and without them.

One job under `tidegate run --ui` runs epoch after epoch. Stretches with readers and stretches without take turns in the
same processes, and each one with readers is compared with its neighbour without. They are short and many: of two
stretches of 20 seconds without readers one takes up to a fifth more than the other, as the JVM compiles and collects.
The page is a thread of the supervisor, so its own CPU time is a figure of its own; the job is the
driver with its JVM and workers.
"""

from __future__ import annotations

import os
import re
import socket
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

from bench.figures import Better, Figure
from bench.footprint import cpu_seconds_of_sessions
from bench.growth import cpu_seconds
from bench.job_program import JOB, ROWS
from bench.job_run import JobRun, newest

READERS = 100
_WARM_EPOCHS, _QUICK_WARM_EPOCHS = 200, 20
_SECONDS, _QUICK_SECONDS = 5.0, 3.0
_PAIRS, _QUICK_PAIRS = 7, 1
"""Of stretches, in a round."""
_GOAL = 1.03
_READ_AT_ONCE = 65_536
_TIMEOUT_SECONDS = 30.0


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """The ratio of an epoch's CPU time, and the page's own share of a core."""
    samples: dict[str, list[float]] = {}
    seconds = _QUICK_SECONDS if quick else _SECONDS
    pairs = rounds * (_QUICK_PAIRS if quick else _PAIRS)
    port = free_port()
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder,
        JobRun(Path(folder), str(ROWS), options=["--ui", "-D", f"ui.port={port}"]) as job,
    ):
        job.wait_for_done(_QUICK_WARM_EPOCHS if quick else _WARM_EPOCHS)
        for number in range(pairs):
            for side in ("baseline", "tidegate") if number % 2 == 0 else ("tidegate", "baseline"):
                with _readers(port, READERS if side == "tidegate" else 0):
                    found = _stretch(job, seconds)
                for what, value in found.items():
                    samples.setdefault(f"{side} {what}", []).append(round(value, 3))
    return figures(samples)


def figures(samples: Mapping[str, list[float]]) -> list[Figure]:
    """From the samples of both sides, pair by pair."""
    with_readers, without = samples["tidegate CPU ms an epoch"], samples["baseline CPU ms an epoch"]
    ratios = [loaded / alone for loaded, alone in zip(with_readers, without, strict=True)]
    return [
        Figure(
            name="page-load",
            what=f"CPU time of the driver's processes for an epoch, with {READERS} readers of the job's events;"
            " baseline: without readers; median of the pairs",
            value=round(median(ratios), 3),
            unit="x",
            better=Better.LOWER,
            goal=_GOAL,
            samples={"baseline CPU ms": without, "tidegate CPU ms": with_readers},
        ),
        Figure(
            name="page-load-own",
            what=f"CPU time of the supervisor with the page in it, of one core, with {READERS} readers",
            value=round(median(samples["tidegate page %"]), 1),
            unit="%",
            better=Better.LOWER,
            goal=None,
            samples={"tidegate %": samples["tidegate page %"], "baseline %": samples["baseline page %"]},
        ),
    ]


def _stretch(job: JobRun, seconds: float) -> dict[str, float]:
    session = os.getsid(job.driver())
    begun, epoch, cpu, page = _now(job, session)
    time.sleep(seconds)
    ended, last, cpu_then, page_then = _now(job, session)
    return {
        "CPU ms an epoch": (cpu_then - cpu) / (last - epoch) * 1000,
        "page %": (page_then - page) / (ended - begun) * 100,
    }


def _now(job: JobRun, session: int) -> tuple[float, int, float, float]:
    """The time, the newest done epoch, the CPU seconds of the driver's processes, and those of the supervisor."""
    return time.monotonic(), newest(job.done()), cpu_seconds_of_sessions({session}), cpu_seconds(job.supervisor)


@contextmanager
def _readers(port: int, count: int) -> Generator[None]:
    """So many clients follow the job's events, and read all of them."""
    over = threading.Event()
    told = [0] * count
    threads = [
        threading.Thread(target=_follow, args=(port, over, told, number), daemon=True) for number in range(count)
    ]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join(_TIMEOUT_SECONDS)
    if not all(told):
        raise RuntimeError(f"{told.count(0)} of {count} readers got no event")


def _follow(port: int, over: threading.Event, told: list[int], number: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
    connection.request("GET", f"/jobs/{JOB}/events")
    answer = connection.getresponse()
    while not over.is_set():
        told[number] += len(re.findall(rb"^id:", answer.read1(_READ_AT_ONCE), re.MULTILINE))
    connection.close()


def free_port() -> int:
    """A port of the loopback that nothing uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
