"""How long commands take to start: beside a Python that does nothing, in turns."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median

from bench.figures import Better, Figure
from tidegate.core.records import JobRecord, encode
from tidegate.operate.beat import Beat, JobState, write_beat

_JOBS = 20
_GOAL_SECONDS = 0.5
_TIMES_A_ROUND = 3
_LOOK_AT_JOBS = frozenset({"list", "info", "history", "txn"})
_COMMANDS: Mapping[str, Sequence[str]] = {
    "start-list": ("list", "-a"),
    "start-info": ("info", "job-0"),
    "start-history": ("history", "job-0"),
    "start-txn-ls": ("txn", "ls"),
    "start-help": ("--help",),
    "start-run-help": ("run", "--help"),
    "start-config-show": ("config", "show"),
}


def measure(name: str, rounds: int, *, quick: bool) -> list[Figure]:
    """Two figures of one command: its seconds, and how many times those of `python -c pass`."""
    command = _COMMANDS[name]
    samples: dict[str, list[float]] = {"baseline s": [], "tidegate s": []}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        _make_jobs(Path(folder))
        where = ["--dir", folder] if command[0] in _LOOK_AT_JOBS else []
        tidegate = [str(Path(sys.executable).with_name("tidegate")), *command, *where]
        sides = {"baseline s": [sys.executable, "-c", "pass"], "tidegate s": tidegate}
        for number in range(rounds + 1):  # the first one brings the files into memory
            for side, line in sides.items():
                seconds = min(_seconds(line) for _ in range(1 if quick else _TIMES_A_ROUND))
                if number:
                    samples[side].append(round(seconds, 4))
    seconds, nothing = median(samples["tidegate s"]), median(samples["baseline s"])
    what = f"start to end of `tidegate {' '.join(command)}`; baseline: `python -c pass`"
    of_it = partial(Figure, better=Better.LOWER, samples=samples)
    return [
        of_it(name=name, what=what, value=round(seconds, 3), unit="s", goal=_GOAL_SECONDS),
        of_it(name=f"{name}-ratio", what=f"{what}, as a ratio", value=round(seconds / nothing, 1), unit="x", goal=None),
    ]


CASES: Mapping[str, Callable[..., list[Figure]]] = {name: partial(measure, name) for name in _COMMANDS}


def _seconds(line: Sequence[str]) -> float:
    begun = time.perf_counter()
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun
    if done.returncode != 0:
        raise RuntimeError(f"{line} failed:\n{done.stderr[-2000:]}")
    return seconds


def _make_jobs(folder: Path) -> None:
    """As many jobs as a folder may well have, each with a beat of its last driver."""
    now = time.time()
    for number in range(_JOBS):
        job = folder / f"job-{number}"
        (job / "locks").mkdir(parents=True)
        record = JobRecord(name=job.name, job_id=f"{number:08x}", generation=1)
        (job / "job.json").write_bytes(encode(record))
        beat = Beat(
            job=job.name,
            job_id=record.job_id,
            state=JobState.FINISHED,
            host="host",
            process=1,
            started_at=now,
            at=now,
            progress_at=now,
            queries=(),
        )
        write_beat(job, beat)
