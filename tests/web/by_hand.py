"""A storage with jobs that tests make by hand, served in this process; a job whose driver the test plays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from tests.jobs.folders import another_driver, make_job, say
from tests.support.saved_job import RECORD, write_job
from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.core.records import encode
from tidegate.operate import Folder
from tidegate.operate.beat import JobState
from tidegate.operate.checkpoints_history import CheckpointsHistory, DoneCheckpoint
from tidegate.operate.control import Answer, Desk, Outcome, Request
from tidegate.operate.failures import Failure, add_failure
from tidegate.storages.opening import open_storage
from tidegate.web.application import build
from tidegate.web.guard import Addresses
from tidegate.web.guarding import LOOPBACK_NAMES, PageEntry
from tidegate.web.site import Site
from tidegate.web.tokens import Token, TokenOrigin, Tokens

ID = "0a0b0c0d" + "0" * 24
"""The id of a job of `make_job`, as Flink's clients write it."""
SAVED_ID = "0f1e2d3c" + "0" * 24
"""The same of `ended_job`."""
TRIGGER = "c0ffee" + "0" * 26
TOKEN = "the-token-of-these-tests-0123456789"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
ENTRY = PageEntry(Addresses("http", LOOPBACK_NAMES | {"testserver"}), Tokens(Token(TOKEN, TokenOrigin.FILE)))
SOON_SECONDS = 20.0


@contextmanager
def page(storage: Path, programs: tuple[Path, ...] = ()) -> Iterator[TestClient]:
    """A page of this storage, in a process that remembers nothing of other pages, for a caller with the token."""
    site = Site.of(Folder.of(storage), tuple(map(str, programs)))
    yield TestClient(build(site, entry=ENTRY), headers=RIGHT)


def job_with_history(storage: Path, name: str = "job") -> Path:
    """A job that has ended: three epochs, two tolerated tries before the second one, a failure in it with a restart."""
    job = make_job(storage, name)
    say(job, JobState.FINISHED)
    CheckpointsHistory(job).add(
        [
            DoneCheckpoint(
                query="query",
                epoch=epoch,
                run=1,
                at=1_000.0 + epoch,
                duration_ms=duration,
                rows=5,
                read=7,
                failed=failed,
            )
            for epoch, (duration, failed) in enumerate(((10.0, 0), (30.0, 2), (20.0, 0)))
        ]
    )
    add_failure(
        job,
        Failure(at=999.0, code="TG-X", what="it broke", where="query", remedy="wait", query="query", epoch=1, run=1,
                details={"column": "amount", "row": 7}, restart_in_seconds=1.0),
    )  # fmt: skip
    return job


def ended_job(storage: Path) -> Path:
    """A job that has ended, with state that a savepoint can be made of."""
    write_job(storage / "job")
    open_storage(storage / "job").put_if_absent(JOB_RECORD, encode(RECORD))
    return storage / "job"


@contextmanager
def running_job(storage: Path) -> Iterator[PlayedDriver]:
    """A job whose driver lives and does nothing, until the test answers for it."""
    job = make_job(storage)
    with another_driver(job) as process:
        say(job, JobState.RUNNING, process=process)
        yield PlayedDriver(job)


@dataclass(frozen=True, slots=True)
class PlayedDriver:
    """The driver of a job, as its desk sees it."""

    job: Path

    def requests(self) -> list[Request]:
        return Desk(self.job).open_requests(time.time())

    def answer(self, request: Request, *, savepoint: str | None = None, epoch: int = 7) -> None:
        Desk(self.job).answer(
            Answer(
                id=request.id,
                kind=request.kind,
                outcome=Outcome.DONE,
                detail="done",
                at=time.time(),
                epochs={"query": epoch},
                savepoint=savepoint,
                into=request.into,
                format=request.format,
            )
        )


def until(client: TestClient, path: str, field: str, wanted: object) -> dict[str, Any]:
    """The answer to a GET, once a field of it is as wanted. `field`: its names, joined by dots."""
    end = time.monotonic() + SOON_SECONDS
    while True:
        found = client.get(path).json()
        if _in(found, field) == wanted:
            return found
        assert time.monotonic() < end, found
        time.sleep(0.05)


def _in(found: Any, field: str) -> object:
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found
