"""What the supervisor costs: the same job under `tidegate run` and alone, in processes that take turns.

An epoch's time is the mean over a stretch, not the median: what a supervisor does comes once a second. The times are
those of the job's own history. How far the rounds without a supervisor lie apart is the noise of the comparison; the
supervisor's own CPU time has none.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

from bench.figures import Better, Figure
from bench.growth import cpu_seconds
from bench.job_program import ROWS
from bench.job_run import JobRun
from tidegate.operate.checkpoints_history import read_checkpoints

_EPOCHS, _QUICK_EPOCHS = (100, 400), (10, 30)
_GOAL = 1.03
_GOAL_CPU_PERCENT = 1.0


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """The ratio, its noise, and the supervisor's share of a core."""
    first, last = _QUICK_EPOCHS if quick else _EPOCHS
    samples: dict[str, list[float]] = {}
    shares: list[float] = []
    for number in range(rounds):
        sides = ("baseline", "tidegate") if number % 2 == 0 else ("tidegate", "baseline")
        for side in sides:
            epoch_ms, share = _epoch(first, last, supervised=side == "tidegate")
            samples.setdefault(f"{side} epoch ms", []).append(epoch_ms)
            if side == "tidegate":
                shares.append(share)
    return figures(samples, shares)


def figures(samples: dict[str, list[float]], shares: list[float]) -> list[Figure]:
    """From the epochs' times by side, in milliseconds, and the supervisor's shares of a core, in percent."""
    alone, kept = samples["baseline epoch ms"], samples["tidegate epoch ms"]
    return [
        Figure(
            name="job-supervisor",
            what="time of an epoch of ten rows under `tidegate run` against that of the program alone (baseline)",
            value=round(median(kept) / median(alone), 3),
            unit="x",
            better=Better.LOWER,
            goal=_GOAL,
            samples=samples,
        ),
        Figure(
            name="job-supervisor-noise",
            what="its noise: how far the rounds of the program alone lie apart",
            value=round((max(alone) - min(alone)) / median(alone) * 100, 1),
            unit="%",
            better=Better.LOWER,
            goal=None,
        ),
        Figure(
            name="job-supervisor-cpu",
            what="the supervisor's own CPU time, of one core",
            value=round(median(shares), 2),
            unit="%",
            better=Better.LOWER,
            goal=_GOAL_CPU_PERCENT,
            samples={"tidegate %": shares},
        ),
    ]


def _epoch(first: int, last: int, *, supervised: bool) -> tuple[float, float]:
    """The mean time of an epoch in milliseconds, and the share of a core that its outermost process took."""
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder,
        JobRun(Path(folder), str(ROWS), supervised=supervised) as job,
    ):
        job.wait_for_done(first)
        since, cpu = time.monotonic(), cpu_seconds(job.supervisor)
        job.wait_for_done(last)
        share = (cpu_seconds(job.supervisor) - cpu) / (time.monotonic() - since) * 100
        job.wait(lambda: _done_at(job).keys() >= {first, last}, "the history of these epochs")
        done_at = _done_at(job)
    return round((done_at[last] - done_at[first]) / (last - first) * 1000, 2), round(share, 2)


def _done_at(job: JobRun) -> dict[int, float]:
    return {each.epoch: each.at for each in read_checkpoints(job.folder)}
