"""What a Redis sink costs against a bare pipeline.

Two hundred thousand rows of six columns, each a hash of its own, from two writers in processes of their own, as the
tasks of an epoch. The server syncs each write (`appendfsync always`), and is empty before each side.

*Commands*: the baseline sends the very commands that the sink sends, made beforehand, through pipelines of the same
client with as many commands each. The sink makes them, and one driver commits. So the figure shows what the sink's own
work costs.

*HSET*: the baseline sends an HSET for each row, in pipelines of as many rows, without stamps and fences. So the figure
shows what it costs that a later run replaces what an earlier one has written, and never the reverse.

Each figure is the baseline's time divided by the sink's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from bench.figures import Figure
from bench.sink_contest import (
    IDENTITY,
    QUICK_SHARE,
    RUN,
    RUN_TOKEN,
    WRITERS,
    epoch_of,
    in_each,
    made,
    plan_of,
    samples_of,
    speed,
    staged,
    writers_of,
)
from tests.support.redis import PASSWORD, RedisServer, packages, running
from tidegate import RedisSink
from tidegate.sinks.redis.scripts import PREPARE, WRITE_HASHES
from tidegate.sinks.redis.server import Call
from tidegate.sinks.redis.values import as_fields, keys_of

ROWS = 200_000
_PREFIX, _KEY = "measured", ("f",)
_ROWS_AT_ONCE = 1_600
"""Of a pipeline: as many as the sink sends before it reads an answer."""
Command: TypeAlias = "tuple[Any, ...]"


def measure(baseline: str, rounds: int, *, quick: bool) -> list[Figure]:
    """Every round sends the baseline's commands, then runs an epoch of the sink."""
    rows = ROWS // (QUICK_SHARE if quick else 1)
    share = rows // WRITERS
    server = RedisServer(packages())
    with running(server), writers_of(share) as writers:
        address = f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0"
        sink = RedisSink("table", address, prefix=_PREFIX, key=_KEY)

        def bare(_: int) -> None:
            in_each(writers, sent, baseline, address, share)

        def tidegate(_: int) -> Mapping[str, float]:
            return epoch_of(sink, writers, 0, rows)

        def before(_: int) -> None:
            with server.client() as client:
                client.flushall()
                for script in (WRITE_HASHES, PREPARE):
                    client.script_load(script.text)
            sink.open(plan_of("update"))
            sink.begin_run(IDENTITY, RUN, RUN_TOKEN)

        in_each(writers, make_commands, baseline, share)
        samples = samples_of({"baseline": bare, "tidegate": tidegate}, rounds, server.session, before)
    told, goal = BASELINES[baseline].told, BASELINES[baseline].goal
    what = f"speed of {rows:,} rows into Redis by {WRITERS} writers; baseline: a bare pipeline of {told}"
    return [speed(f"sink-redis-{baseline}", what, samples, goal)]


# --- in the processes of the writers -----------------------------------------------------------------------


class _Recorder:
    """In the place of a server: keeps the calls of a task, by pipeline."""

    def __init__(self) -> None:
        self.calls: list[list[Call]] = []

    @contextmanager
    def connected(self) -> Generator[_Recorder]:
        yield self

    def run(self, calls: Sequence[Call]) -> list[list[bytes]]:
        self.calls.append(list(calls))
        return [[b"taken"]] * len(calls)


def recorded(rows: int, writer: int) -> list[list[Command]]:
    """The commands of a writer's task, by pipeline."""
    sink, recorder = RedisSink("table", "redis://", prefix=_PREFIX, key=_KEY), _Recorder()
    sink.server = recorder  # pyright: ignore[reportAttributeAccessIssue]
    staged(sink, 0, rows, writer)
    return [[call.command(by_name=True) for call in calls] for calls in recorder.calls]


def hashes(rows: int, writer: int) -> list[list[Command]]:
    """The rows of a writer as commands HSET, by pipeline."""
    commands = [
        ("HSET", _PREFIX.encode() + b":" + key, *fields)
        for batch in made(writer, rows)
        for key, fields in zip(keys_of(batch, _KEY), as_fields(batch), strict=True)
    ]
    return [commands[first : first + _ROWS_AT_ONCE] for first in range(0, len(commands), _ROWS_AT_ONCE)]


@dataclass(frozen=True, slots=True)
class Baseline:
    """`make`: the commands of a writer. `told`: what they are. `goal`: of their speed."""

    make: Callable[[int, int], list[list[Command]]]
    told: str
    goal: float | None


BASELINES: Mapping[str, Baseline] = {
    "commands": Baseline(recorded, "the same commands, made beforehand", 0.8),
    "hset": Baseline(hashes, "an HSET for each row, without stamps and fences", None),
}


@cache
def commands_of(baseline: str, rows: int, writer: int) -> list[list[Command]]:
    """What a process makes once, before it is measured."""
    return BASELINES[baseline].make(rows, writer)


def make_commands(baseline: str, rows: int, _: int) -> None:
    """The commands of each writer, because any process may take any of them."""
    for writer in range(WRITERS):
        commands_of(baseline, rows, writer)


def sent(baseline: str, address: str, rows: int, writer: int) -> None:
    """Send the commands of a writer, and read all answers."""
    import redis

    with redis.Redis.from_url(address) as client:
        for commands in commands_of(baseline, rows, writer):
            pipeline = client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            pipeline.execute()
