"""Whether a job under `tidegate run` keeps its size: memory at epochs 500 and 2,000, its folder at 2,000 and 10,000.

The next epoch begins at once, and all the while somebody asks the job for checkpoints, so that its desk has answers to
keep. The driver's memory is taken as in `growth.py`; the supervisor, which cannot be told to collect, as it is. A part
of the folder counts with the most it held in a while after its epoch: Spark cleans up the state once a minute.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure
from bench.growth import driver_growth, growth, resident, worker_growth
from bench.job_folder import Amount, folder_growth, largest, parts_of
from bench.job_program import ROWS
from bench.job_run import JobRun
from tidegate import operate
from tidegate.operate.control import ANSWERS_KEPT

EPOCHS = 10_000
_QUICK_EPOCHS = 400
_WATCH_SECONDS = 75.0
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Course:
    """The epochs at which the job is looked at, and for how long its folder is."""

    early: int
    middle: int
    late: int
    watch_seconds: float

    @classmethod
    def of(cls, epochs: int) -> Course:
        """Of a run of that many epochs; a short one is watched for a shorter time."""
        return cls(epochs // 20, epochs // 5, epochs, min(1.0, epochs / EPOCHS) * _WATCH_SECONDS)


def measure(rounds: int, *, quick: bool, epochs: int | None = None) -> list[Figure]:
    """One run, whatever `rounds` says: it takes half an hour, and what grows shows in one."""
    del rounds
    course = Course.of(epochs or (_QUICK_EPOCHS if quick else EPOCHS))
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, JobRun(Path(folder), str(ROWS)) as job:
        driver = job.driver()
        job.wait_for_done(0)
        with _asking_all_the_while(job, course):
            job.wait_for_done(course.early)
            early, supervisor_early = job.size(), _resident(job.supervisor)
            job.wait_for_done(course.middle)
            late, supervisor_late = job.size(), _resident(job.supervisor)
            parts_early = _watched(job, course)
            job.wait_for_done(course.late)
            parts_late = _watched(job, course)
        if job.driver() != driver:
            raise RuntimeError("the driver was started again meanwhile: two of them cannot be compared")
        job.stop()
    memory = f"from epoch {course.early:,} to {course.middle:,}, under `tidegate run`"
    return [
        *driver_growth("job-", early, late, memory),
        growth(
            "job-memory-supervisor",
            f"growth of the supervisor's resident size {memory}",
            supervisor_early,
            supervisor_late,
        ),
        worker_growth("job-", early, late, memory),
        *folder_growth(parts_early, parts_late, f"from epoch {course.middle:,} to {course.late:,}"),
    ]


def _resident(process: int) -> float:
    return resident(Path(f"/proc/{process}"))


def _watched(job: JobRun, course: Course) -> dict[str, Amount]:
    end, looks = time.monotonic() + course.watch_seconds, [parts_of(job.folder)]
    while time.monotonic() < end:
        time.sleep(_PAUSE_SECONDS)
        looks.append(parts_of(job.folder))
    return largest(looks)


@contextmanager
def _asking_all_the_while(job: JobRun, course: Course) -> Generator[None]:
    """Somebody who asks often enough for the desk to have dropped answers before it is looked at."""
    over = threading.Event()
    asker = threading.Thread(target=_ask_again_and_again, args=(job, course, over), name="asker", daemon=True)
    asker.start()
    try:
        yield
    finally:
        over.set()
        asker.join()


def _ask_again_and_again(job: JobRun, course: Course, over: threading.Event) -> None:
    step = max(course.middle // (2 * ANSWERS_KEPT), 1)
    epoch = 0
    while not over.wait(0.05):
        if max(job.done(), default=0) >= epoch:
            epoch = max(job.done(), default=0) + step
            operate.open(job.folder.parent, job.folder.name).checkpoint().wait(10.0)  # or the job is ending
