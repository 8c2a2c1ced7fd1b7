"""The durable records of a query's ledger and the values they are made of.

A record is one header line and one JSON body:

    tidegate <kind> <format version> sha256:<64 hex digits of the body>
    {...}

The checksum covers the body, so a torn or altered record is an error that names the file, never a guess; a
format version above this release's is refused without reading on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, TypeVar

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.spoilt import SPOILT

FORMAT = 1
"""The format version that this release writes. Every version up to it is read for ever."""

NOTHING_FINISHED = -1
"""The value of *finished* before the first epoch of a generation that starts at epoch 0."""


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all values: immutable, compared by content, unknown fields refused."""


# --- values ------------------------------------------------------------------------------------------------


class SinkIdentity(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose sink it is: everything that transaction names and evidence keys are made of."""

    job: str
    job_id: str
    generation: int
    query: str
    sink: str


class Attempt(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One execution of one task of an epoch for one sink; the name of one transaction."""

    sink: SinkIdentity
    run: int
    run_token: str
    epoch: int
    task: int
    task_attempt: int

    @property
    def name(self) -> str:
        """Unique among all attempts of the sink: `r<run>-<token>-t<task>-a<task attempt>`."""
        return f"r{self.run}-{self.run_token}-t{self.task}-a{self.task_attempt}"


class JournalRef(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the rows of one attempt are kept: a file name below the ledger, and what proves it whole."""

    name: str
    rows: int
    size_bytes: int
    checksum: str


class Committable(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What any other process needs to commit, abort or write again one transaction.

    `digest` is the evidence that the sink's own transaction leaves behind; `handle` belongs to the sink.
    """

    attempt: Attempt
    rows: int
    digest: str
    handle: dict[str, str] = {}
    journal: JournalRef | None = None


class Outcome(Enum):
    """The closed set of answers to a commit."""

    COMMITTED = "committed"
    ALREADY = "already committed"
    RETRY = "retry later"
    LOST = "lost"
    UNKNOWN = "unknown"


class Answer(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sink's answer for one committable; `detail` says in words what the sink saw."""

    outcome: Outcome
    detail: str = ""


class Evidence(Enum):
    """What a sink can prove about one committable."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    OTHER = "other"  # the same epoch with another digest: a second timeline


class OperatorFingerprint(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a stateful operator computes, as the program has declared it. `number`: its place among those of the query,
    from the last one to the sources; `uid`: the one that the program has given it, or empty. `compared` and `told`: by
    `Part`, as text; another text in `compared` is another operator. `origins`: parts that have other texts with the
    names that the columns have where they come from; the same text there is the same part, too."""

    number: int
    uid: str
    compared: dict[str, str]
    origins: dict[str, str] = {}
    told: dict[str, str] = {}


class Position(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The newest evidence that a sink holds for one sink of one job."""

    job_id: str
    generation: int
    epoch: int
    digest: str


# --- records -----------------------------------------------------------------------------------------------


class Start(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*start*: what a generation of a query begins with. Epochs below `first_epoch` count as finished. `fingerprints`:
    of its stateful operators; None in a record of an older release."""

    job_id: str
    generation: int
    first_epoch: int
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    positions: dict[str, str] = {}
    fingerprints: tuple[OperatorFingerprint, ...] | None = None


class OperatorsAccepted(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*operators/N*: the fingerprints of the stateful operators from the start on that has put it; the newest one
    counts, before those of *start*. `accepted`: the differences, in words, that the start was allowed to accept under
    the id `once`. Without any it is what a start has learned that found no fingerprints, or differences that need no
    permission."""

    fingerprints: tuple[OperatorFingerprint, ...]
    at: str
    accepted: tuple[str, ...] = ()
    once: str = ""


class Run(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*runs/R*: one start of the query, written before anything else."""

    run: int
    token: str
    host: str
    process: int
    since: str


class Prepared(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*prepared/N.R*: every sink of epoch N pre-committed by run R; also of an epoch without rows.

    `state_rows`: the rows of state behind the epoch, by the number of the stateful operator, where Spark has counted
    them; `operator_uids`: the uids that the program has given operators, by their number. A record of an older release
    has none.
    """

    epoch: int
    run: int
    committables: tuple[Committable, ...]
    start_positions: tuple[str | None, ...] | None
    offsets: bytes
    state_ids: str | None
    state_rows: dict[str, int] = {}
    operator_uids: dict[str, str] = {}


class Decided(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*decided/N*: the one prepared record that counts, the bytes of both of Spark's log entries, and the rows of state
    and the uids of operators that the record says."""

    epoch: int
    run: int
    prepared_digest: str
    offsets: bytes
    commits: bytes
    state_rows: dict[str, int] = {}
    operator_uids: dict[str, str] = {}


class Done(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*done/N*: every sink of the epoch has committed."""

    epoch: int
    run: int
    prepared_digest: str


class Overdue(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*overdue/N.R*: epoch N was cut off in run R, because it was not prepared within the `seconds` that it had."""

    epoch: int
    run: int
    seconds: float


class SinkProgress(Value, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The newest epoch in which a sink wrote something, and the digest it left as evidence.

    `generation`: of which that epoch is, where it is an older one: a restored generation begins with what its
    savepoint counts. 0 for that of the record it stands in.
    """

    epoch: int
    digest: str
    generation: int = 0


class FinishedThrough(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*finished_through*: the largest epoch up to which every epoch is done."""

    epoch: int
    sinks: dict[str, SinkProgress] = {}


class JobRecord(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*job.json*: the job's own random id and its generation."""

    name: str
    job_id: str
    generation: int


class DoneEpoch(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One query in a checkpoint: its newest done epoch, by whose run it was computed, and both of Spark's entries.

    The entries are those of *decided*: where each source ends, and the ids of the state files. `sources` and `sinks`
    are in the order of the positions; `progress` says of each sink the newest epoch up to this one in which it wrote
    something, and the digest it left as evidence. `state_rows` and `operator_uids` are those of *decided*;
    `fingerprints` those of its stateful operators that were in force, None in a record of an older release.
    """

    query: str
    generation: int
    epoch: int
    run: int
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    offsets: bytes
    commits: bytes
    progress: dict[str, SinkProgress] = {}
    state_rows: dict[str, int] = {}
    operator_uids: dict[str, str] = {}
    fingerprints: tuple[OperatorFingerprint, ...] | None = None


class CheckpointRecord(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*checkpoints/n/_metadata.json*: a checkpoint of the whole job, whose files stay where they are.

    `queries` are in the order of the program; one that has done no epoch yet is not among them. After `drained`
    no job resumes from it: its watermarks are at the end of time.
    """

    number: int
    job: str
    job_id: str
    at: str
    queries: tuple[DoneEpoch, ...]
    drained: bool = False


class Closing(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*closing*: the job's checkpoints are given up, with everything that its sinks keep for them.

    From this record on nothing of the job counts. A start that finds it completes the clearing.
    """

    job_id: str
    since: str


class Drain(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*drain*: the job was asked to end for good. Every start resumes that; when it has `ended`, a start does
    nothing."""

    job_id: str
    since: str
    ended: str = ""


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


KINDS: dict[type[Value], str] = {
    Start: "start",
    OperatorsAccepted: "operators-accepted",
    Run: "run",
    Prepared: "prepared",
    Decided: "decided",
    Done: "done",
    Overdue: "overdue",
    FinishedThrough: "finished-through",
    JobRecord: "job",
    CheckpointRecord: "checkpoint",
    Closing: "closing",
    Drain: "drain",
    SavepointRecord: "savepoint",
    SavepointClaim: "savepoint-claim",
    FolderToken: "folder-token",
    Restored: "restored",
}

RecordT = TypeVar("RecordT", bound=Value)


def encode(record: Value) -> bytes:
    """A record of one of the `KINDS` as bytes: header line, then the body."""
    body = msgspec.json.encode(record, order="sorted") + b"\n"
    return f"tidegate {KINDS[type(record)]} {FORMAT} sha256:{_sha256(body)}\n".encode() + body


def decode(kind: type[RecordT], data: bytes, where: str) -> RecordT:
    """The record in `data`. Torn, altered, unknown or newer bytes raise; `where` names the file in the error."""
    header, newline, body = data.partition(b"\n")
    words = header.decode("utf-8", "replace").split(" ")
    if len(words) != 4 or words[0] != "tidegate" or not _VERSION.fullmatch(words[2]) or not newline:
        raise _corrupt(f"a header `tidegate {KINDS[kind]} {FORMAT} sha256:...`", repr(header[:80]), where)
    if int(words[2]) > FORMAT:
        raise TidegateError(
            Code.RECORD_NEWER,
            expected=f"format version {FORMAT} or older",
            found=f"format version {words[2]}",
            where=where,
        )
    if words[1] != KINDS[kind]:
        raise _corrupt(f"a record of kind `{KINDS[kind]}`", f"kind `{words[1]}`", where)
    if words[3] != f"sha256:{_sha256(body)}":
        raise _corrupt("a body that fits its checksum", f"{len(body)} bytes that do not", where)
    try:
        return msgspec.json.decode(body, type=kind)
    except SPOILT as error:
        raise _corrupt(f"the fields of `{KINDS[kind]}`", str(error), where) from None


def digest_of(data: bytes) -> str:
    """The digest by which one record names another one: compared by equality only."""
    return _sha256(data)


def committable_digest(attempt: Attempt, checksum: str) -> str:
    """The evidence of one transaction: its whole identity and what it wrote."""
    return _sha256(msgspec.json.encode(attempt, order="sorted") + checksum.encode())


def epoch_digest(committables: Iterable[Committable]) -> str:
    """The evidence of all transactions of one sink in one epoch, whatever their order."""
    return digest_of_all(committable.digest for committable in committables)


def digest_of_all(digests: Iterable[str]) -> str:
    """`epoch_digest`, from the digests of the committables alone."""
    return _sha256("\n".join(sorted(digests)).encode())


_VERSION = re.compile("[1-9][0-9]{0,8}")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _corrupt(expected: str, found: str, where: str) -> TidegateError:
    return TidegateError(
        Code.RECORD_CORRUPT,
        expected=expected,
        found=found,
        where=where,
        next_step="put the file back from a copy, or go back to a savepoint (tidegate run -s PATH APP); do not"
        " delete it: what"
        " it says cannot be guessed",
    )
