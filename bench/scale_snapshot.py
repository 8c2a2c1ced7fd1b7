"""What the upload of a large snapshot does to the epochs beside it.

The job is that of the savepoints: 1 GB of state, ten rows an epoch, the next epoch at once. Spark is told to take no
snapshot before all keys are there, so that the first one is the whole state; its upload is seen in the state's folder,
from the first new file to the archive that completes it. The longest epoch beside the upload is compared with epochs of
the same run beside which nothing was uploaded. These are divided into groups of the same number of epochs; the baseline
is the median of the longest epochs of the groups.

Then the job resumes with `state.changelog = false`: every epoch takes a snapshot and uploads it before it ends.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.figures import Better, Figure
from bench.job_folder import parts_of
from bench.repeated import repeated
from bench.savepoint_job import FILLED, JOB, KEYS, QUICK_KEYS, job_of, wait_for_done
from bench.seen import Seen, told
from bench.session import own_session

_GOAL = 1.2
_MB = 1e6
_EPOCHS, _QUICK_EPOCHS = 150, 60
"""Of each of both jobs, behind the first of its epochs."""
_WARM_UP = 10
_DELTAS = FILLED + 2 * _WARM_UP
_LOOK_SECONDS = 0.02
_CONF: Mapping[str, str] = {
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": str(_DELTAS),
    "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
}
_ARCHIVE = ".zip"


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """One run, whatever `rounds` says: it fills 1 GB."""
    del rounds
    keys, epochs = (QUICK_KEYS, _QUICK_EPOCHS) if quick else (KEYS, _EPOCHS)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, own_session(_CONF) as session:
        place = Path(folder)
        checkpoints = place / "checkpoints"
        state = checkpoints / JOB / "queries" / "query" / "g1" / "spark" / "state" / "0"
        first, second = Seen.of_job(checkpoints, 0), Seen.of_job(checkpoints, 0)
        with uploads_in(state) as uploads:
            with told(first):
                handle = job_of(session, place, keys).start()
                wait_for_done(handle, FILLED + _WARM_UP + epochs)
                handle.stop()
            stopped = time.time()
            with told(second):
                handle = job_of(session, place, keys, changelog="false").start()
                wait_for_done(handle, max(first.visible) + _WARM_UP + epochs)
                handle.stop()
        held = parts_of(checkpoints / JOB)["spark/state"].size
    spans = spans_of(first.begun, FILLED + 1)
    beside, alone = parted(spans, [each for each in uploads.done if each.begun < stopped])
    every = [end - begin for begin, end in spans_of(second.begun, min(second.begun) + _WARM_UP)]
    largest = max(each.size for each in uploads.done if each.begun < stopped)
    return [
        longest("scale-snapshot", "beside the upload of a snapshot", beside, alone),
        longest("scale-snapshot-every-epoch", "with `state.changelog = false`", every, alone),
        _size("scale-snapshot-uploaded", "the largest snapshot of one partition that was uploaded", largest),
        _size("scale-snapshot-state", "Spark's files of state at the end", held),
    ]


@dataclass(frozen=True, slots=True)
class Upload:
    """Of one snapshot of one partition, in seconds since 1970. `size`: bytes of its new files."""

    begun: float
    ended: float
    size: int


@dataclass(slots=True)
class Uploads:
    """What was uploaded into a folder of state, a folder a partition: seen by its new files, some 20 ms late."""

    folder: Path
    done: list[Upload] = field(default_factory=list[Upload])
    _known: set[str] = field(default_factory=set[str])
    _open: dict[str, tuple[float, set[str]]] = field(default_factory=dict[str, tuple[float, set[str]]])

    def look(self, now: float) -> None:
        """Note the files that are new since the last look. An archive completes the upload of its partition."""
        for partition in _names(self.folder):
            files = {
                os.path.join(parent, name)
                for parent, _, names in os.walk(self.folder / partition)
                for name in names
                if name.endswith((_ARCHIVE, ".sst"))
            }
            new = files - self._known
            if not new:
                continue
            self._known |= new
            begun, together = self._open.pop(partition, (now, set()))
            together |= new
            if any(name.endswith(_ARCHIVE) for name in new):
                self.done.append(Upload(begun, now, sum(map(_size_of, together))))
            else:
                self._open[partition] = (begun, together)


@contextmanager
def uploads_in(folder: Path) -> Generator[Uploads]:
    """Watched for the time of a `with`."""
    uploads = Uploads(folder)
    with repeated(lambda: uploads.look(time.time()), _LOOK_SECONDS):
        yield uploads


def spans_of(begun: Mapping[int, float], first: int) -> list[tuple[float, float]]:
    """Begin and end of each epoch from `first` on: it ends where the next one begins."""
    return [(begun[epoch], begun[epoch + 1]) for epoch in sorted(begun) if epoch >= first and epoch + 1 in begun]


def parted(spans: Sequence[tuple[float, float]], uploads: Sequence[Upload]) -> tuple[list[float], list[float]]:
    """The seconds of the epochs that a part of an upload lies in, and those of the others."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for begin, end in spans:
        found[any(each.begun < end and begin < each.ended for each in uploads)].append(end - begin)
    return found[True], found[False]


def longest(name: str, what: str, beside: Sequence[float], alone: Sequence[float]) -> Figure:
    """The longest of `beside`, compared with the baseline: `alone` is divided into groups of the same number of epochs,
    and the baseline is the median of the longest epochs of the groups.

    Raises ValueError if one of them is empty: nothing was uploaded, or all the time.
    """
    if not beside or not alone:
        raise ValueError(f"{len(beside)} epochs beside an upload and {len(alone)} without: nothing to compare")
    size = min(len(beside), len(alone))
    groups = [max(alone[at : at + size]) for at in range(0, len(alone) - size + 1, size)]
    usual = median(groups)
    return Figure(
        name=name,
        what=f"the longest epoch {what}; baseline: the longest of the same number of epochs without an upload",
        value=round(max(beside) / usual, 2),
        unit="x",
        better=Better.LOWER,
        goal=_GOAL,
        samples={
            "baseline longest ms": [round(usual * 1000, 1)],
            "baseline median ms": [round(median(alone) * 1000, 1)],
            "tidegate longest ms": [round(max(beside) * 1000, 1)],
            "tidegate median ms": [round(median(beside) * 1000, 1)],
            "tidegate epochs": [float(len(beside))],
        },
    )


def _size(name: str, what: str, size: int) -> Figure:
    return Figure(name=name, what=what, value=round(size / _MB, 1), unit="MB", better=Better.HIGHER, goal=None)


def _names(folder: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return [name for name in os.listdir(folder) if name.isdigit()]
    return []


def _size_of(file: str) -> int:
    with suppress(FileNotFoundError):  # it is removed again where a newer snapshot has replaced it
        return os.stat(file).st_size
    return 0
