"""The durable records of a query's ledger, of a job and of its savepoints, and the values they are made of.

All other packages import them from here. Each module has one kind of record: `query`, `job`, `savepoint`; the values
that sinks use are in `transactions`, the bytes in `encoding`.
"""

from tidegate.core.digests import digest_of
from tidegate.core.records.encoding import FORMAT, KINDS, decode, encode, is_of_kind
from tidegate.core.records.job import CheckpointRecord, Closing, DoneEpoch, Drain, GenerationOpened, JobRecord
from tidegate.core.records.query import (
    NOTHING_FINISHED,
    Decided,
    Done,
    FinishedThrough,
    OperatorFingerprint,
    OperatorsAccepted,
    Overdue,
    Prepared,
    Run,
    Sealed,
    SinkProgress,
    Start,
    StateFile,
)
from tidegate.core.records.savepoint import (
    FileFlaw,
    FolderToken,
    Restored,
    SavedFile,
    SavedQuery,
    SavepointClaim,
    SavepointFormat,
    SavepointRecord,
    StatefulOperator,
)
from tidegate.core.records.transactions import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    JournalRef,
    Outcome,
    Position,
    SinkIdentity,
    committable_digest,
    digest_of_all,
    epoch_digest,
)
from tidegate.core.records.value import Value

__all__ = [
    "FORMAT",
    "KINDS",
    "NOTHING_FINISHED",
    "Answer",
    "Attempt",
    "CheckpointRecord",
    "Closing",
    "Committable",
    "Decided",
    "Done",
    "DoneEpoch",
    "Drain",
    "Evidence",
    "FileFlaw",
    "FinishedThrough",
    "FolderToken",
    "GenerationOpened",
    "JobRecord",
    "JournalRef",
    "OperatorFingerprint",
    "OperatorsAccepted",
    "Outcome",
    "Overdue",
    "Position",
    "Prepared",
    "Restored",
    "Run",
    "SavedFile",
    "SavedQuery",
    "SavepointClaim",
    "SavepointFormat",
    "SavepointRecord",
    "Sealed",
    "SinkIdentity",
    "SinkProgress",
    "Start",
    "StateFile",
    "StatefulOperator",
    "Value",
    "committable_digest",
    "decode",
    "digest_of",
    "digest_of_all",
    "encode",
    "epoch_digest",
    "is_of_kind",
]
