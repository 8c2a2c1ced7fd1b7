"""The records of savepoints and restores."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records.job import DoneEpoch
from tidegate.core.records.value import Value


class FileFlaw(NamedTuple):
    """How a file differs from what a savepoint says of it, in the words of an error."""

    code: Code
    expected: str
    found: str

    def error(self, where: str, next_step: str) -> TidegateError:
        return TidegateError(self.code, expected=self.expected, found=self.found, where=where, next_step=next_step)


class SavedFile(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a savepoint: its path below the savepoint's folder, and what proves it whole."""

    name: str
    size_bytes: int
    sha256: str

    def shortage(self, size_bytes: int | None) -> FileFlaw | None:
        """What is missing of a file of this size, or of none; None if nothing is. Its content is not known yet."""
        if size_bytes is None:
            return FileFlaw(Code.SAVEPOINT_INCOMPLETE, f"a file of {self.size_bytes} bytes", "none")
        if size_bytes < self.size_bytes:
            return FileFlaw(Code.SAVEPOINT_INCOMPLETE, f"{self.size_bytes} bytes", f"{size_bytes} bytes")
        return None

    def flaw(self, size_bytes: int, sha256: str) -> FileFlaw | None:
        """How a file that was read differs from this one; None if it is the same. A shorter file is incomplete, any
        other difference is an alteration."""
        if (size_bytes, sha256) == (self.size_bytes, self.sha256):
            return None
        expected = f"{self.size_bytes} bytes of SHA-256 {self.sha256}"
        altered = FileFlaw(Code.SAVEPOINT_ALTERED, expected, f"{size_bytes} bytes of {sha256}")
        return self.shortage(size_bytes) or altered


class StatefulOperator(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stateful operator as Spark's metadata of its state has it: by its number in the plan. `name` is Spark's, of its
    kind; `uid` the one that the program has given this operator, or empty."""

    number: int
    name: str
    stores: tuple[str, ...]
    partitions: int
    uid: str = ""


class SavedQuery(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One query in a savepoint.

    `ends` are the positions of its sources by uid, `watermark_ms` is that of its next epoch. `backend` and `partitions`
    are what its state was written with; None where Spark's log does not say. Queries of equal `fingerprint` have the
    same sources, sinks, stateful operators, backend and partitions.
    """

    done: DoneEpoch
    ends: dict[str, str | None]
    watermark_ms: int
    backend: str | None
    partitions: int | None
    operators: tuple[StatefulOperator, ...]
    fingerprint: str


class SavepointFormat(Enum):
    """How a savepoint keeps state."""

    NATIVE = "native"
    """Spark's own files as they are."""
    CANONICAL = "canonical"
    """The state as Parquet, a table for each store; all else as it is."""


class SavepointRecord(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*_metadata.json* of a savepoint: what it is of, and every other file in its folder. Written last."""

    id: str
    format: SavepointFormat
    job: str
    job_id: str
    generation: int
    at: str
    queries: tuple[SavedQuery, ...]
    files: tuple[SavedFile, ...]


class SavepointClaim(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*<savepoint>.<digest>.claim*, beside the savepoint's folder: which job continues under the savepoint's own job
    id, in which folder of which host, since when. The digest is that of the savepoint's manifest. `token` is that of
    the folder, and "" in one of an older release, which knew it by its host."""

    job: str
    job_id: str
    folder: str
    host: str
    at: str
    token: str = ""


class FolderToken(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*folder-token*: what tells a job's folder from every other one, whichever host has it. Put before the job's first
    claim of a savepoint, and never replaced."""

    token: str


class Restored(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*restores/G*: what generation G of the job was opened from. It counts once *job.json* names G.

    `savepoint` is the folder and `digest` that of its manifest. `epochs`: by query, the one behind which it resumes.
    `left_behind`: uids of the job's older generations that no query resumes. `rewind`: the id under which the job was
    allowed to go back behind visible rows. `program`: the queries shown when the rewind was accepted. `renamed`: by uid
    in the savepoint, the uid from then on.
    """

    job_id: str
    generation: int
    savepoint: str
    digest: str
    at: str
    epochs: dict[str, int]
    left_behind: tuple[str, ...] = ()
    rewind: str = ""
    renamed: dict[str, str] = {}
    program: tuple[str, ...] = ()
