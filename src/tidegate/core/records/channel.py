"""The record of an embedded channel: one for each epoch that its writer has published."""

from __future__ import annotations

from tidegate.core.records.transactions import JournalRef
from tidegate.core.records.value import Value


class ChannelRows(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rows of one attempt of a task. `part`: the part of the channel. `begin`: the number of the first row in it.
    `journal`: where the rows are, and their proof.
    """

    part: str
    begin: int
    journal: JournalRef


class ChannelEpoch(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*epochs/K* of a channel: its next published epoch, in the order of publication.

    `oldest`: the number of the oldest record that is still needed; older ones do not count. `query`: the writer.
    `committables`: the digests of the epoch's transactions, sorted. `ends`: for each part, the number of the row after
    its last one; a part of an older generation ends where its generation was left.
    """

    number: int
    oldest: int
    job_id: str
    query: str
    generation: int
    epoch: int
    digest: str
    committables: tuple[str, ...]
    rows: tuple[ChannelRows, ...]
    ends: dict[str, int]
