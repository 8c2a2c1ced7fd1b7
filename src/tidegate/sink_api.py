"""Everything that the author of a sink imports, in one module. See docs/write-your-own-sink.md."""

from tidegate.core.errors import Code, TidegateError
from tidegate.core.guarantees import Shows
from tidegate.core.health import Finding, failed, ok, warn
from tidegate.core.levels import Level
from tidegate.core.records import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    JournalRef,
    Outcome,
    Position,
    SinkIdentity,
    committable_digest,
    epoch_digest,
)
from tidegate.disk.durable import SyncFailed, sync_file, sync_folder
from tidegate.sinks.base import JournalKeeper, OpenTransaction, SinkPlan, Transaction, TwoPhaseSink
from tidegate.sinks.row_values import InvalidText, refused_texts
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.sinks.standing import PROVES, Entry, Standing, standing_of_epoch, standing_of_one
from tidegate.sinks.two_phase_commit import TwoPhaseCommitSink
from tidegate.sinks.write_ahead import DecidedEpoch, WriteAheadSink

__all__ = [
    "PROVES",
    "Answer",
    "Attempt",
    "Code",
    "Committable",
    "DecidedEpoch",
    "Entry",
    "Evidence",
    "Finding",
    "InvalidText",
    "JournalKeeper",
    "JournalRef",
    "Level",
    "OpenTransaction",
    "Outcome",
    "Position",
    "RowRefused",
    "Shows",
    "SinkIdentity",
    "SinkPlan",
    "Standing",
    "SyncFailed",
    "TidegateError",
    "Transaction",
    "TwoPhaseCommitSink",
    "TwoPhaseSink",
    "WriteAheadSink",
    "committable_digest",
    "epoch_digest",
    "failed",
    "ok",
    "one_for_each_row",
    "refused_texts",
    "standing_of_epoch",
    "standing_of_one",
    "sync_file",
    "sync_folder",
    "warn",
]
