"""Evidence in Kafka: for each transaction, an offset of a consumer group that is committed in the same transaction
(KIP-98).
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.json_formats import Unreadable, parsed
from tidegate.core.records import Position, SinkIdentity, digest_of_all
from tidegate.kafka.transactions import CoordinatorState, OffsetMark, Unsettled
from tidegate.kafka.wire import Wire
from tidegate.sinks.kafka.names import TransactionalId
from tidegate.sinks.kafka.transaction import EvidenceText


def position_in(wire: Wire, identity: SinkIdentity, *, prefix: str, topic: str | None) -> Position | None:
    """The newest evidence for (job name, query, sink) in a cluster, of any job id."""
    ids = {name: found for name in wire.groups() if (found := TransactionalId.parse(name)) is not None}
    mine = [
        name
        for name, each in ids.items()
        if (each.prefix, each.query, each.sink) == (prefix, identity.query, identity.sink)
    ]
    # Do not wait for a decided transaction that is still open: it is committed after this check.
    described = wire.describe(mine, Unsettled.AWAIT)
    open_ = {name for name, each in described.items() if each.state is CoordinatorState.OPEN}
    marks = marks_of(wire, dict.fromkeys(open_, topic), Unsettled.SHOW) | marks_of(
        wire, dict.fromkeys(set(mine) - open_, topic), Unsettled.AWAIT
    )
    found = {
        (text.generation, text.epoch, ids[mark.group].job_id, text.digest)
        for mark in marks
        if (text := evidence_in(mark)) is not None
        # A job that has moved to another name keeps its id.
        and (text.job == identity.job or ids[mark.group].job_id == identity.job_id)
        # In this topic, another job id is an older life of this job. Elsewhere it is a job of the same name.
        if ids[mark.group].job_id == identity.job_id or topic in (None, mark.topic)
    }
    if not found:
        return None
    generation, epoch, job_id, _ = max(found)
    digests = [digest for *at, digest in found if at == [generation, epoch, job_id]]
    return Position(job_id=job_id, generation=generation, epoch=epoch, digest=digest_of_all(digests))


def forget_in(wire: Wire, identity: SinkIdentity, *, prefix: str) -> None:
    """Delete the groups with the marks of this job's transactions. They are all the evidence that exists."""
    mine = [
        name
        for name in wire.groups()
        if (found := TransactionalId.parse(name)) is not None and found.belongs_to(prefix, identity)
    ]
    wire.delete_groups(mine)


def marks_of(wire: Wire, wanted: Mapping[str, str | None], unsettled: Unsettled) -> set[OffsetMark]:
    """The marks of groups: at the place of the current settings, and at the places of all older settings."""
    known = {name: topic for name, topic in wanted.items() if topic is not None}
    found = [wire.marks(known, unsettled), wire.marks(dict.fromkeys(wanted), unsettled)]
    return {mark for groups in found for marks in groups.values() for mark in marks}


def evidence_in(mark: OffsetMark) -> EvidenceText | None:
    """The contents of a group's metadata, or None if another program committed this offset."""
    try:
        return parsed(mark.metadata, EvidenceText)
    except Unreadable:
        return None
