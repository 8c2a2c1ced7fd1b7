"""Takes a savepoint of a running job: its files are held by links, copied beside the target, then renamed.

A kill leaves a hidden folder beside the target, and the links in the job's folder. Neither counts as a savepoint, and
the next savepoint of the job removes both. After a cancel, the copy ends at the next block. Files of a job on another
storage are held as copies, beside the target.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from tidegate.checkpoints.job_layout import QUERIES
from tidegate.checkpoints.spark_layout import is_state
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import (
    DoneEpoch,
    SavedFile,
    SavedQuery,
    SavepointFormat,
    SavepointRecord,
    StatefulOperator,
    digest_of,
    encode,
)
from tidegate.disk.durable import Trust, ensure_folder, sync_file, sync_folder
from tidegate.disk.walking import files_below
from tidegate.savepoints.building import Building, BuildingOnDisk
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.cut import demand_cut
from tidegate.savepoints.folder import MANIFEST, Savepoint, open_savepoint
from tidegate.savepoints.held import held_queries, remove_folder
from tidegate.savepoints.hold import newest_done
from tidegate.savepoints.query import operators_of
from tidegate.savepoints.running_job import OpenTables, RunningJob, refused
from tidegate.savepoints.saved_tables import link_readable, state_bytes, tables_in
from tidegate.savepoints.state_change import lives_by_rows, rows_refused
from tidegate.storages.schemes import Folder

HELD = "savepoints-held"
STEPS = ("held", "copied", "described", "renamed")
"""The steps in order; each is durable before the next."""

_ATTEMPTS = 3
_NAMES_AT_MOST = 100
_PARTIAL = ".partial"


def take(
    job: RunningJob,
    savepoint_id: str,
    into: Path,
    copying: Copying | None = None,
    form: SavepointFormat = SavepointFormat.NATIVE,
) -> Savepoint:
    """Take a savepoint of the newest done epochs, in a folder of its own below `into`; return the existing one of this
    id if there is one. One at a time for a job. The job's epochs do not wait. `copying` shows the progress, and can
    cancel it.

    Raises SAVEPOINT_REFUSED, SAVEPOINT_CUT_OFF, and storage errors.
    """
    target = into / f"savepoint-{job.record.job_id}-{savepoint_id}"
    copying = Copying() if copying is None else copying
    with Trust().over(target, "take a savepoint"):
        if not copying.called_off.is_set():  # else the job has ended, and its next driver may hold files there
            remove_held(job.folder)  # of a killed one, also if its savepoint exists
        if (target / MANIFEST).exists():
            sync_folder(into)  # the process that renamed it may have been killed before that
            return _still_that(job, open_savepoint(target), form)
        copying.go_on()
        ensure_folder(into)
        for left in into.glob(f".savepoint-{job.record.job_id}-*{_PARTIAL}"):
            copying.go_on()  # after a disk has hung, the files there may belong to another driver
            remove_folder(left)
        own = secrets.token_hex(4)  # a canceled one, on a disk that hung, removes only its own files
        held, partial = held_in(job, target, own), into / f".{target.name}.{own}{_PARTIAL}"
        try:
            building = BuildingOnDisk(partial, copying, one_by_one=job.runs_on)
            record = put_together(job, savepoint_id, held, building, copying, form)
            _write_synced(partial / MANIFEST, encode(record))
            sync_folder(partial)
            job.reach("described")
            for lack in _lacks(partial, record):
                raise not_whole(job, lack)
            copying.appear()
            os.rename(partial, target)
            sync_folder(into)
            job.reach("renamed")
        finally:
            for remove in (
                lambda: remove_folder(partial),
                lambda: remove_folder(held),
                lambda: _remove_empty(job.folder),
            ):
                with suppress(OSError):  # the next one removes the rest: this must not hide the first error
                    remove()
    return Savepoint(target, record, digest_of(encode(record)))


def take_last(
    job: RunningJob,
    savepoint_id: str,
    into: Path,
    copying: Copying | None = None,
    form: SavepointFormat = SavepointFormat.NATIVE,
) -> Savepoint:
    """Take a savepoint of a job whose queries have all ended, at exactly their last epochs.

    A savepoint of earlier epochs may exist under this id: its process was killed before the end of the job, and the job
    has run since. It stays. The new one is named `<id>-2`, or with the next free number. Raises like `take`.
    """
    job.end_input()
    ended_with = {each.query.uid: newest_done(each) for each in job.queries}
    return to_one_of_these(job, savepoint_id, ended_with, lambda name: take(job, name, into, copying, form))


def to_one_of_these(
    job: RunningJob, savepoint_id: str, ended_with: Mapping[str, DoneEpoch | None], act: Callable[[str], Savepoint]
) -> Savepoint:
    """The first savepoint under `<id>`, `<id>-2` and so on that is of these epochs; `act` takes or finds one."""
    for number in range(1, _NAMES_AT_MOST):
        savepoint = act(savepoint_id if number == 1 else f"{savepoint_id}-{number}")
        if {query.done.query: query.done for query in savepoint.record.queries} == ended_with:
            return savepoint
    raise refused(job, f"a savepoint {savepoint_id} of the last epochs", f"{_NAMES_AT_MOST} of earlier ones")


def remove_held(job_folder: Folder) -> None:
    """Release the files that a killed driver has held. Only with the job's locks held."""
    if job_folder.is_local:  # off a disk: `scratch`
        held = job_folder.local() / HELD
        with Trust().over(held, "release the files of a savepoint"):
            remove_folder(held)


def held_in(job: RunningJob, target: Path, own: str) -> Path:
    """The folder for the held files: links need the job's own disk."""
    if job.folder.is_local:
        return job.folder.local() / HELD / own
    return target.with_name(f".{target.name}.{own}-held{_PARTIAL}")


def _remove_empty(job_folder: Folder) -> None:
    if job_folder.is_local:
        (job_folder.local() / HELD).rmdir()


def check_form(job: RunningJob, form: SavepointFormat) -> None:
    """Raises SAVEPOINT_REFUSED if state of the job cannot be stored in this format."""
    if form is SavepointFormat.CANONICAL:
        for running in job.queries:
            _check_rows(job, running.query.uid, operators_of(running.folder / "spark", {}))


def check_folder(job: RunningJob, into: Path) -> None:
    """Create the folder; raise a storage error if savepoints cannot be written there."""
    scratch = into / f".savepoint-{job.record.job_id}-{secrets.token_hex(4)}{_PARTIAL}"
    with Trust().over(into, "take a savepoint"):
        ensure_folder(into)
        scratch.mkdir()
        with suppress(FileNotFoundError):  # a savepoint that begins in the meantime has removed it
            scratch.rmdir()


def put_together(
    job: RunningJob, savepoint_id: str, held: Path, building: Building, copying: Copying, form: SavepointFormat
) -> SavepointRecord:
    """Put the files of the savepoint to their place, durably. Returns its manifest, which is not written yet."""
    check_form(job, form)
    with job.keep_input():
        queries = held_queries(job, held, copying)
        demand_cut(job.folder, job.record, [query.done for query in queries])
    job.reach("held")
    if form is SavepointFormat.NATIVE:
        files = _copied(held, building, copying, lambda _name: True)
    else:
        by_rows = {query.done.query for query in queries if lives_by_rows(query.operators)}
        files = _copied(held, building, copying, lambda name: not _is_state_of(by_rows, name))
        files += _tables(job, queries, held, building, copying)
    building.settle()
    job.reach("copied")
    return _described(job, savepoint_id, queries, files, form)


def not_whole(job: RunningJob, lack: str) -> TidegateError:
    """The error of a new savepoint of which a file is missing or truncated: a copy may take hours."""
    return refused(job, "every file as it was copied", lack)


def _still_that(job: RunningJob, standing: Savepoint, form: SavepointFormat) -> Savepoint:
    """Return `standing`, the savepoint that already exists under this id.

    Raises SAVEPOINT_REFUSED if it has the other format, SAVEPOINT_INCOMPLETE if a file is missing or has another size,
    for example after a removal that was interrupted. The content of the files is not read.
    """
    of_this_form(job, standing.record, form)
    for lack in _lacks(standing.folder, standing.record):
        raise TidegateError(
            Code.SAVEPOINT_INCOMPLETE,
            expected="every file of the savepoint that stands under this id",
            found=lack,
            where=str(standing.folder),
            next_step="remove its folder, or choose another id",
        )
    return standing


def of_this_form(job: RunningJob, standing: SavepointRecord, form: SavepointFormat) -> SavepointRecord:
    """Return `standing`. Raises SAVEPOINT_REFUSED if it has the other format."""
    if standing.format is not form:
        wanted = f"a {form.value} savepoint, or none, under the id {standing.id}"
        raise refused(job, wanted, f"a {standing.format.value} one", "choose another id")
    return standing


def _lacks(folder: Path, record: SavepointRecord) -> Iterator[str]:
    """The files that are missing, or have another size."""
    for file in record.files:
        path = folder / file.name
        size = path.stat().st_size if path.exists() else -1
        if size != file.size_bytes:
            yield f"{file.name} is gone" if size < 0 else f"{file.name} has {size} bytes, not {file.size_bytes}"


def _described(
    job: RunningJob,
    savepoint_id: str,
    queries: Sequence[SavedQuery],
    files: Iterable[SavedFile],
    form: SavepointFormat,
) -> SavepointRecord:
    return SavepointRecord(
        id=savepoint_id,
        format=form,
        job=job.record.name,
        job_id=job.record.job_id,
        generation=job.record.generation,
        at=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        queries=tuple(queries),
        files=tuple(sorted(files, key=lambda file: file.name)),
    )


def _copied(source: Path, building: Building, copying: Copying, wanted: Callable[[str], bool]) -> list[SavedFile]:
    """Copy the wanted files of a folder, by their paths below it. Each is durable at the end."""
    folders = list(files_below(source))
    copying.total_bytes = sum((folder / name).stat().st_size for folder, names in folders for name in names)
    building.make_folders(folder.relative_to(source).as_posix() for folder, _ in folders)
    paths = [(folder / name).relative_to(source).as_posix() for folder, names in folders for name in names]
    return building.copy(source, [path for path in paths if wanted(path)])


def _is_state_of(queries: Set[str], name: str) -> bool:
    root, query, below = name.split("/", 2)
    return root == QUERIES and query in queries and is_state(below.partition("/")[2])


def _tables(
    job: RunningJob, queries: Sequence[SavedQuery], held: Path, building: Building, copying: Copying
) -> Iterator[SavedFile]:
    """The state of the queries as Parquet, every file durable. It replaces Spark's files with equal weight."""
    for query in queries:
        checkpoint, by_rows = held / QUERIES / query.done.query / "spark", lives_by_rows(query.operators)
        open_tables = _check_rows(job, query.done.query, query.operators)
        if not by_rows:
            readable = held / "readable" / query.done.query
            link_readable(checkpoint, readable)
            checkpoint = readable
        tables = tables_in(checkpoint, query)
        if not tables:
            continue
        with open_tables(query, checkpoint, copying) as write_table:
            for table in tables:
                begun, folder = copying.copied_bytes, building.folder / table.folder
                folder.parent.mkdir(parents=True, exist_ok=True)
                write_table(table, folder)
                for path in sorted(folder.iterdir()):
                    yield building.keep(path.relative_to(building.folder).as_posix())
                copying.copied_bytes = begun
                copying.copied(state_bytes(checkpoint, table) if by_rows else 0)


def _check_rows(job: RunningJob, query: str, operators: Iterable[StatefulOperator]) -> OpenTables:
    """The function that opens the state to write it as rows. Raises SAVEPOINT_REFUSED if there is none."""
    for error in rows_refused(operators, f"job {job.record.name}, query {query}"):
        raise error
    if job.open_tables is None:
        raise refused(
            job,
            "a job that runs: its Spark writes the tables of a canonical savepoint",
            "one that has ended",
            "take a native savepoint (--type native), or start the job and try again",
        )
    return job.open_tables


def _write_synced(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        sync_file(file.fileno())
