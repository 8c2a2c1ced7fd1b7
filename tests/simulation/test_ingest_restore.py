"""A restore of an ingest log dies before each change of the disk: the old log is there, or the new one, and whole."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.simulation.saved.watched import Hit, Killed, Strike, Watched
from tidegate.checkpoints.ingest_layout import INGEST, segments
from tidegate.checkpoints.ingest_read import read_slice, slices
from tidegate.checkpoints.ingest_segments import SegmentLog
from tidegate.disk import durable
from tidegate.savepoints.ingest_restore import SavedLog, join, prepare_log, settle_logs
from tidegate.storages.local.storage import LocalStorage

SWITCH = "job.json"


def own_log_that_was_trimmed(root: Path) -> None:
    """The savepoint has lines 1 to 4; the job has let go of 1 and 2, and has taken 5 and 6 in."""
    log = SegmentLog(root / "job" / INGEST / "lines", segment_bytes=1)
    for number in range(1, 5):
        log.append([b"%d" % number])
    copy(log, root)
    for number in range(5, 7):
        log.append([b"%d" % number])
    log.trim(segments(root / "job" / INGEST / "lines")[2].begin)
    log.close()


def own_log_under_another_uid(root: Path) -> None:
    own_log_that_was_trimmed(root)
    (root / "job" / INGEST / "lines").rename(root / "job" / INGEST / "before")


def no_log(root: Path) -> None:
    log = SegmentLog(root / "first" / INGEST / "lines", segment_bytes=1)
    log.append([b"1"])
    log.append([b"2"])
    copy(log, root)
    log.close()


def copy(log: SegmentLog, root: Path) -> None:
    """What the savepoint holds."""
    (root / "saved").mkdir()
    for segment in log._segments:  # pyright: ignore[reportPrivateUsage] (the files as they stand)
        (root / "saved" / segment.path.name).write_bytes(segment.path.read_bytes())


@pytest.mark.parametrize("hit", [Hit.KILL, Hit.TORN, Hit.DROP, Hit.EMPTY])
@pytest.mark.parametrize(
    ("make", "before", "after"),
    [
        (own_log_that_was_trimmed, [3, 4, 5, 6], [1, 2, 3, 4, 5, 6]),
        (own_log_under_another_uid, None, [1, 2, 3, 4, 5, 6]),
        (no_log, None, [1, 2]),
    ],
)
def test_it_dies_anywhere_and_is_whole(
    make: Callable[[Path], None], before: list[int] | None, after: list[int], hit: Hit
):
    with world(make) as root:
        unharmed = Watched(root)
        with unharmed():
            restore(root)
    assert unharmed.changes > 10
    for at in range(1, unharmed.changes + 1):
        with world(make) as root:
            watched = Watched(root, (Strike(hit, at),))
            watched.settle()
            with watched():
                with suppress(Killed):
                    restore(root)
                watched.revive()
                durable._settled.clear()  # pyright: ignore[reportPrivateUsage] (a new process knows nothing)
                generation = switched(root)
                settle_logs(root / "job", generation)
            hidden = list((root / "job").glob(f"{INGEST}/.*"))
            assert hidden == [], f"{hit} at {at}"
            assert lines(root) == (after if generation == 2 else before), f"{hit} at {at}"
            if generation == 1:
                restore(root)
            assert lines(root) == after, f"{hit} at {at}, and restored again"


def restore(root: Path) -> None:
    job = root / "job"
    prepare_log(job, 2, join("lines", job / INGEST, SavedLog(root / "saved", is_ours=True), "test"))
    LocalStorage(job).replace(SWITCH, b"2")
    settle_logs(job, 2)


def switched(root: Path) -> int:
    return 2 if (root / "job" / SWITCH).exists() else 1


def lines(root: Path) -> list[int] | None:
    folder = root / "job" / INGEST / "lines"
    if not folder.exists():
        return None
    log = SegmentLog(folder)
    begin, end = log.begin, log.end
    log.close()
    found = [frame for piece in slices(folder, begin, end, "test") for frame in read_slice(piece)]
    return [int(line) for frame in found for line in frame.lines()]


@contextmanager
def world(make: Callable[[Path], None]) -> Iterator[Path]:
    """A folder whose files are all durable."""
    in_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="tidegate-ingest-", dir=in_memory) as folder:
        root = Path(folder).resolve()
        (root / "job").mkdir()
        make(root)
        yield root
