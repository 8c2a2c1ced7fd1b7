"""Where a job and its queries stand in `checkpointing.dir`, for whoever looks without the job's program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tidegate.checkpoints.retention import JOB_RECORD
from tidegate.checkpoints.storage import LocalStorage
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import START, Query
from tidegate.core.records import JobRecord, Start, decode

_GENERATION = re.compile(r"g([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class QueryPlace:
    """The newest generation of a query: its folder and its *start*."""

    uid: str
    folder: Path
    start: Start

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(self.folder)


@dataclass(frozen=True, slots=True)
class JobPlace:
    """A job's folder and what *job.json* says."""

    folder: Path
    record: JobRecord

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(self.folder)

    def queries(self) -> list[QueryPlace]:
        """The queries that have begun, by uid."""
        found = [_newest_generation(path) for path in _folders(self.folder / "queries")]
        return [query for query in found if query is not None]

    def query(self, place: QueryPlace, forgetful: frozenset[str], expiring: frozenset[str]) -> Query:
        """What the protocol knows of a query, as its ledger has it."""
        return Query(
            job=self.name,
            job_id=self.record.job_id,
            generation=place.start.generation,
            uid=place.uid,
            sources=place.start.sources,
            sinks=place.start.sinks,
            forgetful=forgetful,
            expiring=expiring,
        )


def open_job(folder: Path) -> JobPlace:
    """The job in this folder. Raises JOB_UNKNOWN where there is none."""
    found = _job_in(folder)
    if found is None:
        raise TidegateError(
            Code.JOB_UNKNOWN,
            expected=f"{JOB_RECORD} of a job",
            found="none",
            where=str(folder),
            next_step="see `tidegate list -a`",
        )
    return found


def find_jobs(root: Path) -> list[JobPlace]:
    """Every job in this folder, by name."""
    return [job for path in _folders(root) if (job := _job_in(path)) is not None]


def _job_in(folder: Path) -> JobPlace | None:
    if not (folder / JOB_RECORD).is_file():
        return None
    storage = LocalStorage(folder)
    data = storage.read(JOB_RECORD)
    where = str(storage.path(JOB_RECORD))
    return None if data is None else JobPlace(folder, decode(JobRecord, data, where))


def _newest_generation(folder: Path) -> QueryPlace | None:
    numbers = sorted(int(found[1]) for path in _folders(folder) if (found := _GENERATION.fullmatch(path.name)))
    for number in reversed(numbers):
        storage = LocalStorage(folder / f"g{number}")
        data = storage.read(START)
        if data is not None:
            start = decode(Start, data, str(storage.path(START)))
            return QueryPlace(folder.name, folder / f"g{number}", start)
    return None


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
