"""Views of existing savepoints, and actions on them: list, inspect, verify, compare, dispose, export, import.

List, inspect, verify and compare only read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavedQuery
from tidegate.savepoints.at_a_place import dispose_at, open_at, savepoints_at, verify_at
from tidegate.savepoints.claim import read_claim
from tidegate.savepoints.folder import MANIFEST, Savepoint
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from tidegate.savepoints.archive import BytesPassed


class SavepointView(msgspec.Struct, frozen=True, kw_only=True):
    """A savepoint as a whole. `epochs`: by query. `claimed_by`: as text; None if no job has claimed it."""

    path: str
    id: str
    format: str
    job: str
    job_id: str
    generation: int
    at: str
    claimed_by: str | None
    epochs: dict[str, int]
    files: int
    bytes: int


class SavedOperatorView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one stateful operator. A value that an older release did not record is None."""

    name: str
    uid: str | None
    stores: tuple[str, ...]
    partitions: int
    computes: dict[str, str] | None
    state_rows: int | None
    state_bytes: int


class SavedQueryView(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a query in a savepoint. `sources`: by uid, the end offset in the source's own format. `sinks`: by
    uid, the newest epoch with rows. `operators`: by number."""

    query: str
    epoch: int
    sources: dict[str, str | None]
    watermark_ms: int
    sinks: dict[str, int | None]
    backend: str | None
    partitions: int | None
    operators: dict[str, SavedOperatorView]
    state_bytes: int
    fingerprint: str | None


class SavepointDetails(SavepointView, frozen=True, kw_only=True):
    """A savepoint with its queries. `ingest_bytes`: by source with an ingest log, the bytes of stored lines after the
    saved epochs."""

    queries: tuple[SavedQueryView, ...]
    ingest_bytes: dict[str, int]


class FolderIs(Enum):
    """The kind of folder that was searched for savepoints."""

    MISSING = "missing"
    A_SAVEPOINT = "a savepoint itself"
    A_FOLDER = "a folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoints:
    """The savepoints in a folder, newest first, and the problems of unreadable ones."""

    folder: str
    folder_is: FolderIs
    savepoints: tuple[SavepointView, ...]
    problems: tuple[TidegateError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The number of files in a savepoint, and their problems."""

    path: str
    files: int
    problems: tuple[TidegateError, ...]


@dataclass(frozen=True, slots=True)
class Archive:
    """A savepoint as one file."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs between two savepoints. `name`: its keys. None if a savepoint has no such value."""

    what: tuple[str, ...]
    before: object
    after: object


def list_savepoints(folder: str | Path) -> Savepoints:
    """The savepoints directly in a folder. Raises STORAGE_UNUSABLE if the folder cannot be listed."""
    place = Folder.of(folder)
    found, wrong = savepoints_at(place)
    readable: list[SavepointView] = []
    for each in found:
        try:
            readable.append(SavepointView(**_whole(each)))
        except TidegateError as error:  # removed meanwhile
            wrong.append(error)
    is_one = open_storage(place).look(MANIFEST) is not None
    is_there = not place.is_local or place.local().exists()  # other storages have no empty folders
    folder_is = FolderIs.A_SAVEPOINT if is_one else FolderIs.A_FOLDER if is_there else FolderIs.MISSING
    return Savepoints(folder=str(place), folder_is=folder_is, savepoints=tuple(readable), problems=tuple(wrong))


def inspect_savepoint(path: str | Path) -> SavepointDetails:
    """The content of a savepoint's manifest. Raises SAVEPOINT_INCOMPLETE, SAVEPOINT_UNSAFE, RECORD_..."""
    return details_of(open_at(Folder.of(path)))


def verify_savepoint(path: str | Path) -> Verified:
    """Read every file and compare it with the manifest. A savepoint that cannot be opened is reported as a problem."""
    place, files = Folder.of(path), 0
    wrong: Sequence[TidegateError]
    try:
        found = open_at(place)
        files, wrong = len(found.record.files), verify_at(found)
    except TidegateError as error:
        wrong = (error,)
    return Verified(path=str(place), files=files, problems=tuple(wrong))


def compare_savepoints(before: str | Path, after: str | Path) -> tuple[Difference, ...]:
    """The differences between two savepoints, except their paths. Only the manifests are read."""
    left, right = _flat(inspect_savepoint(before)), _flat(inspect_savepoint(after))
    names = [*left, *(name for name in right if name not in left)]
    return tuple(
        Difference(name, left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)
    )


def dispose_savepoint(path: str | Path) -> None:
    """Remove a savepoint; after a kill, complete the removal. Raises SAVEPOINT_ALTERED or SAVEPOINT_UNSAFE, and removes
    nothing, if the folder holds foreign files."""
    dispose_at(Folder.of(path))


def export_savepoint(path: str | Path, target: str | Path, passed: BytesPassed = lambda _more, _total: None) -> Archive:
    """Write a savepoint as one tar archive. The archive is complete or absent."""
    archive, found = Folder.of(target), open_at(Folder.of(path))
    if archive.is_local:
        from tidegate.savepoints.archive import export_file

        export_file(found, archive.local(), passed)
        return Archive(str(archive), archive.local().stat().st_size)
    from tidegate.savepoints.archive_elsewhere import export_to

    return Archive(str(archive), export_to(found, archive, passed))


def stream_savepoint(path: str | Path, into: IO[bytes], called: Path, passed: BytesPassed) -> None:
    """Write a savepoint as a tar archive into a stream. `called`: the name of the stream in errors."""
    from tidegate.disk.durable import Trust
    from tidegate.savepoints.archive import export_stream

    found = open_at(Folder.of(path))
    with Trust().over(called, "export a savepoint"):
        export_stream(found, into, passed)
        into.flush()


def import_savepoint(
    archive: IO[bytes], folder: str | Path, called: str, passed: BytesPassed = lambda _more, _total: None
) -> SavepointDetails:
    """Unpack a savepoint from an archive into a folder; it is complete or absent. `called`: the name of the archive in
    errors."""
    into = Folder.of(folder)
    if into.is_local:
        from tidegate.savepoints.archive import import_stream

        return details_of(import_stream(archive, into.local(), passed, called=called))
    from tidegate.savepoints.archive_elsewhere import import_to

    return details_of(import_to(archive, into, passed, called=called))


def open_archive(file: str | Path) -> AbstractContextManager[IO[bytes]]:
    """An archive, as a stream, by its path or URI. Raises OSError, SAVEPOINT_INCOMPLETE, and storage errors."""
    place = Folder.of(file)
    if place.is_local:
        return place.local().open("rb")
    from tidegate.savepoints.archive_elsewhere import opened_archive

    return opened_archive(place)


# --- a savepoint as a view -------------------------------------------------------------------------------------


def details_of(found: Savepoint) -> SavepointDetails:
    """The content of its manifest and its claim."""
    queries = tuple(_query(found, each) for each in found.record.queries)
    return SavepointDetails(**_whole(found), queries=queries, ingest_bytes=_ingest_bytes(found))


def _whole(found: Savepoint) -> dict[str, Any]:
    record = found.record
    return {
        "path": str(found.found_at),
        "id": record.id,
        "format": record.format.value,
        "job": record.job,
        "job_id": record.job_id,
        "generation": record.generation,
        "at": record.at,
        "claimed_by": _claimed_by(found),
        "epochs": {query.done.query: query.done.epoch for query in record.queries},
        "files": len(record.files),
        "bytes": found.size_bytes,
    }


def _claimed_by(found: Savepoint) -> str | None:
    """The job that has claimed the savepoint and resumes from it under its job id, as text; None if there is no claim.
    An unreadable claim hides no savepoint."""
    try:
        claim = read_claim(found)
    except TidegateError as error:
        return f"a record that cannot be read ({error.code}: {error.where})"
    return None if claim is None else f"job {claim.job} in {claim.folder} on {claim.host}"


def _query(found: Savepoint, query: SavedQuery) -> SavedQueryView:
    done = query.done
    operators = {
        str(each.number): SavedOperatorView(
            name=each.name,
            uid=each.uid or None,
            stores=tuple(each.stores),
            partitions=each.partitions,
            computes=_computes(query, each.number),
            state_rows=done.state_rows.get(str(each.number)),
            state_bytes=_state_bytes(found, done.query, f"{each.number}/"),
        )
        for each in query.operators
    }
    return SavedQueryView(
        query=done.query,
        epoch=done.epoch,
        sources=query.ends,
        watermark_ms=query.watermark_ms,
        sinks={uid: done.progress[uid].epoch if uid in done.progress else None for uid in done.sinks},
        backend=query.backend,
        partitions=query.partitions,
        operators=operators,
        state_bytes=_state_bytes(found, done.query),
        fingerprint=query.fingerprint,
    )


def _computes(query: SavedQuery, number: int) -> dict[str, str] | None:
    """By part, the definition of an operator; None in a savepoint of an older release."""
    found = (each.compared for each in query.done.fingerprints or () if each.number == number)
    return next(found, None)


def _state_bytes(found: Savepoint, query: str, operator: str = "") -> int:
    state = (f"queries/{query}/spark/state/{operator}", f"queries/{query}/state/{operator}")
    return sum(file.size_bytes for file in found.record.files if file.name.startswith(state))


def _ingest_bytes(found: Savepoint) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for file in found.record.files:
        root, uid, *_ = file.name.split("/")
        if root == INGEST:
            sizes[uid] = sizes.get(uid, 0) + file.size_bytes
    return sizes


# --- comparing two savepoints ----------------------------------------------------------------------------------

_NOT_COMPARED = ("path", "epochs", "queries", "ingest_bytes")
"""Paths, and values that are shown for each query elsewhere."""


def _flat(found: SavepointDetails) -> dict[tuple[str, ...], object]:
    """Every single value, by its keys."""
    whole: dict[str, Any] = msgspec.to_builtins(found)
    values = dict(_below((), {name: value for name, value in whole.items() if name not in _NOT_COMPARED}))
    for query in whole["queries"]:
        values.update(_below(("query", str(query.pop("query"))), query))
    return values


def _below(name: tuple[str, ...], values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _below((*name, key), value)  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield (*name, key), value
