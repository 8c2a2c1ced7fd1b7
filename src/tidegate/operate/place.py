"""The folders of a job and its queries in `checkpointing.dir`, for commands without the job's program."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.checkpoints.job_layout import JOB_RECORD, QUERIES, generation_folder, newest_begun, query_names
from tidegate.checkpoints.succession import standing
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import START, Query
from tidegate.core.records import JobRecord, SinkIdentity, Start, decode
from tidegate.storages.leases import open_lease
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage


@dataclass(frozen=True, slots=True)
class QueryPlace:
    """The newest generation of a query: its folder and its record *start*."""

    uid: str
    folder: Folder
    start: Start

    @property
    def storage(self) -> Storage:
        return open_storage(self.folder)


@dataclass(frozen=True, slots=True)
class JobPlace:
    """A job's folder and the content of *job.json*."""

    folder: Folder
    record: JobRecord

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def storage(self) -> Storage:
        return open_storage(self.folder)

    def queries(self) -> list[QueryPlace]:
        """The queries that have started, by uid."""
        found = [_newest_generation(self.folder / QUERIES / uid) for uid in query_names(self.folder)]
        return [query for query in found if query is not None]

    def sink(self, query: str, uid: str, generation: int | None = None) -> SinkIdentity:
        """The identity of a sink of this job, in the query's own generation unless another one is given."""
        number = self.record.generation if generation is None else generation
        return SinkIdentity(job=self.name, job_id=self.record.job_id, generation=number, query=query, sink=uid)

    def query(self, place: QueryPlace, forgetful: frozenset[str], expiring: frozenset[str]) -> Query:
        """The protocol's `Query` for a query of this job, made from its ledger.

        `forgetful` and `expiring`: see `Query`.
        """
        return Query(
            job=self.name,
            job_id=self.record.job_id,
            generation=place.start.generation,
            uid=place.uid,
            sources=place.start.sources,
            sinks=place.start.sinks,
            forgetful=forgetful,
            expiring=expiring,
            local_lease=open_lease(self.folder).proves_the_engine_dead,
        )


def open_job(folder: Folder) -> JobPlace:
    """The job in this folder. Raises JOB_UNKNOWN if there is none, RECORD_... if a record of it is unreadable."""
    record = standing(folder)
    if record is None:
        raise TidegateError(
            Code.JOB_UNKNOWN,
            expected=f"{JOB_RECORD} of a job",
            found="none",
            where=str(folder),
            next_step="see `tidegate list -a`",
        )
    return JobPlace(folder, record)


def _newest_generation(folder: Folder) -> QueryPlace | None:
    number = newest_begun(folder)
    if number is None:
        return None
    storage = open_storage(generation_folder(folder, number))
    data = storage.read(START)
    if data is None:  # removed meanwhile: a newer generation has started
        return _newest_generation(folder)
    return QueryPlace(folder.name, generation_folder(folder, number), decode(Start, data, storage.where(START)))
