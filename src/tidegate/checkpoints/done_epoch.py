"""A done epoch of a query, read from its ledger: the part of it that a retained checkpoint and a savepoint hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.ledger import DECIDED, FINISHED_THROUGH, OPERATORS, START, Query, decode_decided, entry
from tidegate.core.records import (
    DoneEpoch,
    FinishedThrough,
    OperatorFingerprint,
    OperatorsAccepted,
    Sealed,
    Start,
    decode,
    is_of_kind,
)
from tidegate.storages.storage import Storage


def seal_of(ledger: Storage) -> Sealed | None:
    """The seal of a generation; None if it has none. Nothing is decided behind it, so it has the highest number."""
    newest = max(entry_numbers(ledger.list(DECIDED)), default=None)
    name = "" if newest is None else entry(DECIDED, newest)
    data = ledger.read(name) if name else None
    return decode(Sealed, data, ledger.where(name)) if data is not None and is_of_kind(Sealed, data) else None


def newest_operator_uids(ledger: Storage) -> Mapping[str, str]:
    """The uids of stateful operators, by number, in the newest decided epoch; empty if nothing is decided yet."""
    newest = max(entry_numbers(ledger.list(DECIDED)), default=None)
    name = "" if newest is None else entry(DECIDED, newest)
    data = ledger.read(name) if name else None
    return {} if data is None else decode_decided(data, ledger.where(name)).operator_uids


def fingerprints_in_force(ledger: Storage) -> tuple[OperatorFingerprint, ...] | None:
    """The fingerprints of the stateful operators: those of the newest *operators/N*, otherwise those of *start*. None
    if neither has any.
    """
    newest = max(entry_numbers(ledger.list(OPERATORS)), default=None)
    name = START if newest is None else entry(OPERATORS, newest)
    data = ledger.read(name)
    if data is None:
        return None
    return decode(Start if newest is None else OperatorsAccepted, data, ledger.where(name)).fingerprints


def finished_through(ledger: Storage) -> FinishedThrough | None:
    """The progress of a query; None before its first done epoch. This process wrote and synced the record, so a plain
    read is enough.
    """
    data = ledger.peek(FINISHED_THROUGH)
    return None if data is None else decode(FinishedThrough, data, ledger.where(FINISHED_THROUGH))


def done_epoch(
    query: Query,
    ledger: Storage,
    finished: FinishedThrough,
    fingerprints: Callable[[Storage], tuple[OperatorFingerprint, ...] | None] = fingerprints_in_force,
) -> DoneEpoch | None:
    """The epoch that the query is finished through; None if the ledger has moved on and removed it."""
    name = entry(DECIDED, finished.epoch)
    data = ledger.read(name)
    if data is None:
        return None
    decided = decode_decided(data, ledger.where(name))
    return DoneEpoch(
        query=query.uid,
        generation=query.generation,
        epoch=finished.epoch,
        run=decided.run,
        sources=query.sources,
        sinks=query.sinks,
        offsets=decided.offsets,
        commits=decided.commits,
        progress=finished.sinks,
        state_rows=decided.state_rows,
        operator_uids=decided.operator_uids,
        fingerprints=fingerprints(ledger),
    )
