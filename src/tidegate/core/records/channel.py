"""The records of a channel: one for each epoch that its writer has published; over Kafka, one for each generation."""

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


class ChannelKey(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What decides the part of a row: the value in this column, for so many parts a generation."""

    column: str
    partitions: int


class ChannelEpoch(Value, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """*epochs/K* of a channel: its next published epoch, in the order of publication. Over Kafka: the next epoch of its
    writer that is done; its rows are in the topic, so there are no `rows`, no `digest` and no `committables`.

    `oldest`: the number of the oldest record that is still needed; older ones do not count. `query`: the writer.
    `committables`: the digests of the epoch's transactions, sorted. `ends`: for each part, the number of the row after
    its last one; a part of an older generation ends where its generation was left. `key`: what its rows were parted
    by; another epoch may have another one. None: all rows are in part 0.
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
    key: ChannelKey | None = None

    @property
    def at(self) -> tuple[int, int]:
        """The generation and the epoch of the writer."""
        return self.generation, self.epoch

    @property
    def is_noted(self) -> bool:
        """True if the rows are elsewhere. Then each epoch has a record of its own, also one without rows."""
        return not self.digest


class ChannelBegin(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """*begins/G* of a channel over Kafka: where the rows of generation G of its writer begin.

    `offsets`: for each partition of the topic, the offset of row 0 of its part. A partition that is not in it did not
    exist then: its part begins at offset 0.
    """

    generation: int
    topic: str
    topic_id: str
    offsets: dict[str, int]
