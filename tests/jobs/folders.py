"""Folders of jobs as drivers leave them, made by hand; and locks held by other processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import command
from tidegate.core.records import JobRecord, encode
from tidegate.operate.beat import Beat, JobState, QueryBeat, write_beat

_HOLDER = """
import sys
from tidegate.storages.local.locks import acquire
lock = acquire(sys.argv[1], "job")
print("held", flush=True)
sys.stdin.read()
"""

_SUPERVISOR = """
import fcntl, sys
file = open(sys.argv[1] + "/locks/supervisor.lock", "wb")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def make_job(folder: Path, name: str = "job") -> Path:
    """The folder of a job that was started once."""
    job = folder / name
    (job / "locks").mkdir(parents=True)
    (job / "job.json").write_bytes(encode(JobRecord(name=name, job_id="0a0b0c0d", generation=1)))
    return job


def say(
    job: Path, state: JobState, *, process: int = 1, at: float | None = None, error: str = "", application: str = ""
) -> Beat:
    """A beat of a driver of this host."""
    import socket

    now = time.time() if at is None else at
    query = QueryBeat(uid="query", run=1, epoch=4, finished=4, rows=10, rows_per_second=2.5, last_done_at=now)
    beat = Beat(
        job=job.name,
        job_id="0a0b0c0d",
        state=state,
        host=socket.gethostname(),
        process=process,
        started_at=now,
        at=now,
        progress_at=now,
        queries=(query,),
        error=error,
        application=application,
    )
    write_beat(job, beat)
    return beat


@contextmanager
def another_driver(job: Path) -> Iterator[int]:
    """Another process holds the driver lock; its number."""
    with _holding(_HOLDER, job) as process:
        yield process


@contextmanager
def a_supervisor(job: Path) -> Iterator[int]:
    """Another process holds the supervisor's lock."""
    with _holding(_SUPERVISOR, job) as process:
        yield process


@contextmanager
def _holding(program: str, job: Path) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", program, str(job)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process.pid
        finally:
            process.kill()


def tidegate(*arguments: str) -> tuple[int, str]:
    """What the command prints, both streams in one, and its exit code."""
    said = command.tidegate(*arguments)
    return said.code, said.stdout + said.stderr
