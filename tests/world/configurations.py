"""What runs in the world: the query, its two sinks, its lease, and how the threads of a driver take turns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from tidegate.core.ledger import Query


class Work(Enum):
    """What the query computes."""

    STATELESS = "stateless"  # rows that differ from run to run, and move between tasks; no state ids
    STATEFUL = "stateful"  # a running count and a random accumulator, published with each row
    WINDOWED = "windowed"  # rows wait in the state for the watermark: the last ones need a no-data epoch


class Schedule(Enum):
    """Which thread of a driver goes first."""

    TURNS = "turns"
    STREAM_FIRST = "stream first"
    FINISHER_FIRST = "finisher first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One query in the world. `sinks` are their kinds: `s` staged, `k` Kafka, `f` files.

    `chunks`: how many records an epoch takes, by the run that starts it (in turns), so that an epoch that is
    started anew ends elsewhere. `filtered` records reach no sink. `retain` is Spark's minBatchesToRetain. `slow`: an
    epoch, and the seconds that it needs; it is cut off when it has less.
    """

    name: str
    work: Work
    sinks: str
    local_lease: bool = True
    schedule: Schedule = Schedule.TURNS
    max_concurrent: int = 1
    records: int = 6
    chunks: tuple[int, ...] = (2, 3)
    filtered: frozenset[int] = frozenset()
    retain: int = 100
    positions: tuple[str, ...] = ("number",)
    slow: tuple[int, float] | None = None

    @property
    def query(self) -> Query:
        return Query(
            job="job",
            job_id="j0",
            generation=0,
            uid="query",
            sources=tuple(f"source{index}" for index in range(len(self.positions))),
            sinks=tuple(f"{kind}{index}" for index, kind in enumerate(self.sinks)),
            max_concurrent=self.max_concurrent,
            cleaned_together=2,
            local_lease=self.local_lease,
        )


TASKS: Final = 2

TIMEOUT_SECONDS: Final = 1.0
"""What an epoch of a configuration with a slow one has at first."""

_EMPTY_MIDDLE: Final = frozenset({2, 3, 4})
"""The second epoch has no rows, in the third one task has none."""

CONFIGURATIONS: Final = {
    each.name: each
    for each in (
        Configuration(name="stateful-sk", work=Work.STATEFUL, sinks="sk"),
        Configuration(
            name="stateless-kf",
            work=Work.STATELESS,
            sinks="kf",
            filtered=_EMPTY_MIDDLE,
            schedule=Schedule.STREAM_FIRST,
        ),
        Configuration(
            name="stateless-sf",
            work=Work.STATELESS,
            sinks="sf",
            max_concurrent=2,
            schedule=Schedule.STREAM_FIRST,
            positions=("files", "kafka"),
        ),
        Configuration(
            name="windowed-sk",
            work=Work.WINDOWED,
            sinks="sk",
            schedule=Schedule.FINISHER_FIRST,
            positions=("kafka",),
        ),
        Configuration(name="slow-sk", work=Work.STATEFUL, sinks="sk", records=4, slow=(1, 3.0)),
        Configuration(
            name="slow-sf-remote",
            work=Work.STATELESS,
            sinks="sf",
            records=4,
            local_lease=False,
            schedule=Schedule.FINISHER_FIRST,
            slow=(0, 3.0),
        ),
        Configuration(name="short-sk", work=Work.STATEFUL, sinks="sk", records=4),
        Configuration(name="short-stateful-remote", work=Work.STATEFUL, sinks="sk", records=4, local_lease=False),
        Configuration(
            name="short-stateless-remote",
            work=Work.STATELESS,
            sinks="kf",
            records=4,
            filtered=frozenset({0, 1, 2}),
            local_lease=False,
            schedule=Schedule.STREAM_FIRST,
        ),
        Configuration(name="stateful-sk-remote", work=Work.STATEFUL, sinks="sk", local_lease=False),
        Configuration(
            name="stateless-sk-remote",
            work=Work.STATELESS,
            sinks="sk",
            local_lease=False,
            filtered=_EMPTY_MIDDLE,
        ),
        Configuration(
            name="windowed-kf-remote",
            work=Work.WINDOWED,
            sinks="kf",
            local_lease=False,
            schedule=Schedule.STREAM_FIRST,
            filtered=_EMPTY_MIDDLE,
        ),
        Configuration(
            name="stateful-sf-remote",
            work=Work.STATEFUL,
            sinks="sf",
            local_lease=False,
            max_concurrent=2,
            schedule=Schedule.FINISHER_FIRST,
        ),
        Configuration(
            name="purged-sk-remote",
            work=Work.STATELESS,
            sinks="sk",
            local_lease=False,
            records=7,
            chunks=(1,),
            retain=1,
        ),
    )
}
