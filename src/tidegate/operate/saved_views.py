"""What is shown of savepoints, and what is done with those that are there: list, inspect, verify, compare, dispose,
export, import. All but the last three only read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, Any

import msgspec

from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavedQuery
from tidegate.core.spark_log import SKIPPED, TOPIC_IDS
from tidegate.savepoints import folder as savepoint_folder
from tidegate.savepoints.claim import read_claim
from tidegate.savepoints.folder import MANIFEST, Savepoint, open_savepoint

BESIDE_TOPICS = (TOPIC_IDS, SKIPPED)
"""What stands beside the topics in the end of a Kafka source."""

Passed = Callable[[int, int], None]
"""Hears how many more bytes have passed, and how many there are in all."""


class SavepointView(msgspec.Struct, frozen=True, kw_only=True):
    """What a savepoint is of, as a whole. `epochs`: by query. `claimed_by`: in words; None if no job has claimed it."""

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
    """The state of one stateful operator. What an older release has not written down is None."""

    name: str
    uid: str | None
    stores: tuple[str, ...]
    partitions: int
    computes: dict[str, str] | None
    state_rows: int | None
    state_bytes: int


class SavedQueryView(msgspec.Struct, frozen=True, kw_only=True):
    """Where a query is, and what it resumes with. `sources`: by uid the end in the source's own words. `sinks`: by uid
    the newest epoch with rows. `operators`: by number."""

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
    """The same with its queries. `ingest_bytes`: by source with an ingest log, the bytes of lines behind the saved
    epochs that the savepoint holds."""

    queries: tuple[SavedQueryView, ...]
    ingest_bytes: dict[str, int]


class FolderIs(Enum):
    """What a folder is that was searched for savepoints."""

    MISSING = "missing"
    A_SAVEPOINT = "a savepoint itself"
    A_FOLDER = "a folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoints:
    """The savepoints in a folder, the newest first, and what is wrong with those that cannot be read."""

    folder: str
    folder_is: FolderIs
    savepoints: tuple[SavepointView, ...]
    problems: tuple[TidegateError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """How many files a savepoint has, and what is wrong with them."""

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
    """One value that two savepoints have different, by the names that lead to it; None where one has no such value."""

    what: tuple[str, ...]
    before: object
    after: object


def list_savepoints(folder: str | Path) -> Savepoints:
    """The savepoints directly in a folder. Raises STORAGE_UNUSABLE where it cannot be listed."""
    place = Path(folder).absolute()
    found, wrong = savepoint_folder.savepoints_in(place)
    readable: list[SavepointView] = []
    for each in found:
        try:
            readable.append(SavepointView(**_whole(each)))
        except TidegateError as error:  # removed meanwhile
            wrong.append(error)
    is_one = (place / MANIFEST).exists()
    folder_is = FolderIs.A_SAVEPOINT if is_one else FolderIs.A_FOLDER if place.exists() else FolderIs.MISSING
    return Savepoints(folder=str(place), folder_is=folder_is, savepoints=tuple(readable), problems=tuple(wrong))


def inspect_savepoint(path: str | Path) -> SavepointDetails:
    """What the manifest of a savepoint says. Raises SAVEPOINT_INCOMPLETE, SAVEPOINT_UNSAFE, RECORD_..."""
    return details_of(open_savepoint(Path(path).absolute()))


def verify_savepoint(path: str | Path) -> Verified:
    """Read every file and compare it with the manifest. A savepoint that cannot be opened is a problem like others."""
    place, files = Path(path).absolute(), 0
    wrong: Sequence[TidegateError]
    try:
        found = open_savepoint(place)
        files, wrong = len(found.record.files), savepoint_folder.verify(found)
    except TidegateError as error:
        wrong = (error,)
    return Verified(path=str(place), files=files, problems=tuple(wrong))


def compare_savepoints(before: str | Path, after: str | Path) -> tuple[Difference, ...]:
    """What two savepoints have different, but for their paths. It reads the manifests alone."""
    left, right = _flat(inspect_savepoint(before)), _flat(inspect_savepoint(after))
    names = [*left, *(name for name in right if name not in left)]
    return tuple(
        Difference(name, left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)
    )


def dispose_savepoint(path: str | Path) -> None:
    """Remove a savepoint; after a kill, complete that. Raises SAVEPOINT_ALTERED or SAVEPOINT_UNSAFE, and removes
    nothing, where the folder holds what is not its own."""
    place = Path(path).absolute()
    if not savepoint_folder.finish_disposal(place):
        savepoint_folder.dispose(open_savepoint(place))


def export_savepoint(path: str | Path, target: str | Path, passed: Passed = lambda _more, _total: None) -> Archive:
    """Write a savepoint as one archive (tar), which is whole or not there."""
    from tidegate.savepoints.archive import export_file

    archive = Path(target).absolute()
    export_file(open_savepoint(Path(path).absolute()), archive, passed)
    return Archive(str(archive), archive.stat().st_size)


def stream_savepoint(path: str | Path, into: IO[bytes], called: Path, passed: Passed) -> None:
    """Write a savepoint as an archive into a stream, which errors call `called`."""
    from tidegate.disk.durable import Trust
    from tidegate.savepoints.archive import export_stream

    found = open_savepoint(Path(path).absolute())
    with Trust().over(called, "export a savepoint"):
        export_stream(found, into, passed)
        into.flush()


def import_savepoint(
    archive: IO[bytes], folder: str | Path, called: str, passed: Passed = lambda _more, _total: None
) -> SavepointDetails:
    """Put the savepoint of an archive into a folder; it is whole or not there. Errors call the archive `called`."""
    from tidegate.savepoints.archive import import_stream

    return details_of(import_stream(archive, Path(folder).absolute(), passed, called=called))


# --- a savepoint as a view -------------------------------------------------------------------------------------


def details_of(found: Savepoint) -> SavepointDetails:
    """All that its manifest and its claim say."""
    queries = tuple(_query(found, each) for each in found.record.queries)
    return SavepointDetails(**_whole(found), queries=queries, ingest_bytes=_ingest_bytes(found))


def _whole(found: Savepoint) -> dict[str, Any]:
    record = found.record
    return {
        "path": str(found.folder),
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
    """The job that resumes from it under its job id, and where; None if no job has claimed it. A record that cannot be
    read hides neither its savepoint nor any other."""
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
    """By part, what an operator computes; None in a savepoint of an older release."""
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


# --- two of them -----------------------------------------------------------------------------------------------

_NOT_COMPARED = ("path", "epochs", "queries", "ingest_bytes")
"""Where they lie, and what is said of each query anyway."""


def _flat(found: SavepointDetails) -> dict[tuple[str, ...], object]:
    """Every single value, by its name."""
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
