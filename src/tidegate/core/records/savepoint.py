"""The records of savepoints and restores."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records.job import DoneEpoch
from tidegate.core.records.value import Value


class FileFlaw(NamedTuple):
    """The difference of a file from its entry in a savepoint, in the words of an error."""

    code: Code
    expected: str
    found: str

    def error(self, where: str, next_step: str) -> TidegateError:
        return TidegateError(self.code, expected=self.expected, found=self.found, where=where, next_step=next_step)


class SavedFile(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a savepoint: its path below the savepoint's folder, with its size and checksum."""

    name: str
    size_bytes: int
    sha256: str

    @property
    def absent(self) -> FileFlaw:
        """What is said of this file if it is not there."""
        return FileFlaw(Code.SAVEPOINT_INCOMPLETE, f"a file of {self.size_bytes} bytes", "none")

    def shortage(self, size_bytes: int | None) -> FileFlaw | None:
        """The missing part of a file of this size, or of an absent file; None if nothing is missing. The content is not
        compared.
        """
        if size_bytes is None:
            return self.absent
        if size_bytes < self.size_bytes:
            return FileFlaw(Code.SAVEPOINT_INCOMPLETE, f"{self.size_bytes} bytes", f"{size_bytes} bytes")
        return None

    def size_flaw(self, size_bytes: int | None) -> FileFlaw | None:
        """How a file of this size, or an absent one, differs from this entry; None if it has the same size."""
        if size_bytes == self.size_bytes:
            return None
        longer = FileFlaw(Code.SAVEPOINT_ALTERED, f"{self.size_bytes} bytes", f"{size_bytes} bytes")
        return self.shortage(size_bytes) or longer

    def flaw(self, size_bytes: int, sha256: str) -> FileFlaw | None:
        """How a file differs from this entry, given the size and SHA-256 that were read; None if it is the same.

        A shorter file is incomplete; any other difference is an alteration.
        """
        if (size_bytes, sha256) == (self.size_bytes, self.sha256):
            return None
        expected = f"{self.size_bytes} bytes of SHA-256 {self.sha256}"
        altered = FileFlaw(Code.SAVEPOINT_ALTERED, expected, f"{size_bytes} bytes of {sha256}")
        return self.shortage(size_bytes) or altered


class StatefulOperator(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stateful operator in Spark's metadata of its state: its number in the plan, Spark's `name` of its kind, and the
    `uid` in the program, or empty.
    """

    number: int
    name: str
    stores: tuple[str, ...]
    partitions: int
    uid: str = ""


class SavedQuery(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One query in a savepoint.

    `ends`: the positions of its sources by uid. `watermark_ms`: the watermark of its next epoch. `backend` and
    `partitions`: the form of its state; None if Spark's log does not show it. Queries of equal `fingerprint` have the
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
    """The format of state in a savepoint."""

    NATIVE = "native"
    """Spark's own files, unchanged."""
    CANONICAL = "canonical"
    """The state as Parquet, a table for each store; all other files unchanged."""


class SavepointRecord(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*_metadata.json* of a savepoint: its contents, and every other file in its folder. Written last."""

    id: str
    format: SavepointFormat
    job: str
    job_id: str
    generation: int
    at: str
    queries: tuple[SavedQuery, ...]
    files: tuple[SavedFile, ...]


class SavepointClaim(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file *<savepoint>.<digest>.claim* beside a savepoint's folder. It names the job that continues under the job
    id in the savepoint: its folder, its host, and the time of the claim.

    `digest`: of the savepoint's manifest. `token`: the random token in the job's folder; empty in a record of an older
    release, which compared the host instead.
    """

    job: str
    job_id: str
    folder: str
    host: str
    at: str
    token: str = ""


class FolderToken(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*folder-token*: distinguishes a job's folder from every other one, on any host. Written before the job's first
    claim of a savepoint, and never replaced.
    """

    token: str


class Restored(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*restores/G*: the savepoint of generation G of the job. It counts once *job.json* names G.

    `savepoint` is the folder and `digest` that of its manifest. `epochs`: by query, the epoch after which it resumes.
    `left_behind`: uids of the job's older generations that no query resumes. `rewind`: the id under which the job was
    allowed to go back behind visible rows. `program`: the queries shown when the rewind was accepted. `renamed`: by uid
    in the savepoint, the new uid. `in_flight`: that of the checkpoint; its readers read these rows first.
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
    in_flight: dict[str, int] = {}
