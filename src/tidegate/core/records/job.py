"""The records of a whole job: its identity, its checkpoints, and how it ends."""

from __future__ import annotations

from tidegate.core.records.query import OperatorFingerprint, SinkProgress
from tidegate.core.records.value import Value


class JobRecord(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*job.json*: the job's own random id and its generation. Also *generation/<k>*: the k-th job of this folder."""

    name: str
    job_id: str
    generation: int


class GenerationOpened(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*generation/<job id>.<n>*: the `generation` that follows generation `after`, which is n-1; no other one does.

    Also *openings/G*: a start prepares generation G. It has judged the generation `after`; 0 for a new job.
    """

    job_id: str
    after: int
    generation: int


class PreparationEnded(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*openings/G.end*: generation G is `ready`, and may count; or it is given up, and never counts.

    `queries`: those whose *start* is prepared. A ready generation without it has lost records.
    """

    generation: int
    ready: bool
    queries: tuple[str, ...] = ()


class JobEnded(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*generation/<job id>.<n>*: the job has ended in generation `after`, which is n-1; no other one follows.

    Also *generation/<job id>.cleared*, with `after` 0: everything that the job has left is removed.
    """

    job_id: str
    after: int
    since: str


class DoneEpoch(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One query in a checkpoint: its newest done epoch, the run that computed it, and both of Spark's entries.

    The entries are those of *decided*: the end of each source, and the ids of the state files. `sources` and `sinks`
    are in the order of the positions. `progress`: for each sink its newest epoch with rows, at most this epoch, and the
    digest that the sink stored as evidence. `state_rows` and `operator_uids` are those of *decided*.
    `fingerprints`: those of its stateful operators in force, None in a record of an older release.
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


class TakenPart(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query in a checkpoint of a job with channels, measured.

    `after_ms`: from the begin of the checkpoint until the query took part. `aligned_ms`: from the first barrier of its
    channels until then. `rows_held`, `bytes_held`: what waited behind its barriers then. `rows_in_flight`: what it had
    not read, and belongs to the checkpoint.
    """

    after_ms: int
    aligned_ms: int = 0
    rows_held: int = 0
    bytes_held: int = 0
    rows_in_flight: int = 0


class CheckpointRecord(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*checkpoints/n/_metadata.json*: a checkpoint of the whole job. Its files stay in place.

    `queries` are in the order of the program; one without a done epoch is left out. After `drained` no job resumes from
    it: its watermarks are at the end of time. `held_in`, in a job with channels: the checkpoint is one cut across
    them, and holds its files in *checkpoints/held/<held_in>/<query>*; `held`: their names, by the uid of the query.
    `in_flight`, of unaligned barriers: for each part of a channel that has rows behind the snapshot of a reader, the
    row after the last one that belongs to the checkpoint. `alignment`: "aligned", "unaligned" or "at-least-once".
    `taken`: by query, how it took part; nothing if all queries had ended.
    """

    number: int
    job: str
    job_id: str
    at: str
    queries: tuple[DoneEpoch, ...]
    drained: bool = False
    held_in: str = ""
    held: dict[str, tuple[str, ...]] = {}
    in_flight: dict[str, int] = {}
    alignment: str = ""
    taken: dict[str, TakenPart] = {}


class Closing(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*closing*: the job's checkpoints are being deleted, with everything that its sinks keep for them.

    From this record on the job no longer counts. A start that finds it completes the deletion.
    """

    job_id: str
    since: str


class NotedFolder(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*folders/<digest of the folder>* in a user's home: a `folder` of jobs that drivers of this user have on YARN."""

    folder: str


class Drain(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*drain*: a drain of the job was requested. Every start resumes it. After it has `ended`, a start does nothing."""

    job_id: str
    since: str
    ended: str = ""
