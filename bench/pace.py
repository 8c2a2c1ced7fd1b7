"""The pace of a job whose queries begin their next epochs at once, measured while it runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from bench.footprint import cpu_seconds_of_session
from tidegate import Job, JobHandle

_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Pace:
    """Of a job: milliseconds of an epoch of each query, and CPU time of all processes for one."""

    epoch_ms: float
    cpu_ms: float


def measured_pace(job: Job, warm_up_epochs: int, seconds: float) -> Pace:
    """Start a job, and measure it for so long when each query has done so many epochs. Then it is stopped."""
    handle = job.start()
    try:
        while min(handle.finished().values(), default=-1) < warm_up_epochs:
            _watch(handle)
        before, begun, cpu = handle.finished(), time.monotonic(), cpu_seconds_of_session()
        while time.monotonic() < begun + seconds:
            _watch(handle)
        return pace_of(before, handle.finished(), time.monotonic() - begun, cpu_seconds_of_session() - cpu)
    finally:
        handle.stop()


def pace_of(before: Mapping[str, int], after: Mapping[str, int], seconds: float, cpu_seconds: float) -> Pace:
    """From the newest done epoch of each query before and after. Raises ValueError where one did none."""
    epochs = [after[query] - before[query] for query in before]
    if min(epochs) < 1:
        raise ValueError(f"a query had no epoch in {seconds:g} s: {epochs}")
    each = median(seconds / done for done in epochs)
    return Pace(round(each * 1000, 1), round(cpu_seconds / sum(epochs) * 1000, 1))


def _watch(handle: JobHandle) -> None:
    """For a moment. Raises what made the job fail."""
    if handle.wait(_LOOK_SECONDS):
        raise RuntimeError("the job has ended")
