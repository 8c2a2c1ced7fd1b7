"""What a seed draws before its world begins: the job, the lease, which faults there are and how often they strike."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from typing import Final

from tests.simulator.faults import AT_A_COMMIT, Fault
from tests.world.configurations import Configuration, Work
from tidegate.core.ledger import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One seed's world.

    Rates are per step. `stalls` are the points before which a thread may stand still, with `stall_rate`; `bursts` is
    the chance that the thread that went last goes again; `chaos_steps` bounds the part with faults. Who stands still
    at its end goes on `wakes_after` steps later. With `overwrites` Spark's log is on an object store: between Spark's
    look for an entry and its put another driver may write it, and the put overwrites.
    """

    seed: int
    queries: tuple[Configuration, ...]
    local_lease: bool
    overwrites: bool
    chaos_steps: int
    rate: float
    commit_rate: float
    stall_rate: float
    bursts: float
    workers: int
    in_process_restarts: int
    stalls: frozenset[str]
    wakes_after: int
    general: tuple[tuple[Fault, float], ...]
    at_commit: tuple[Fault, ...]

    def query(self, index: int, generation: int) -> Query:
        """What the protocol knows of one query of the job. Each uid is a prefix of the next one. A new generation reads
        all input once more."""
        query = self.queries[index].query
        return dataclasses.replace(query, uid="q" * (index + 1), generation=generation, may_repeat=generation > 0)


def draw_plan(seed: int) -> Plan:
    """The plan of a seed: the same in every process."""
    rng = random.Random(seed)
    local_lease = rng.random() < 0.45
    log = random.Random(f"log of {seed}")
    overwrites = not local_lease and log.random() < _OVERWRITTEN
    theme = rng.choice(_THEMES) if rng.random() < 0.5 else _NO_THEME
    if overwrites and log.random() < _THEME_OF_AN_OVERWRITTEN_LOG:
        theme = _OVERWRITING
    enabled = {fault for fault in Fault if rng.random() < _ENABLED.get(fault, 0.6)} | theme.faults
    if local_lease:
        enabled.discard(Fault.SECOND_DRIVER)
    general = tuple(
        (fault, _WEIGHT.get(fault, 1.0) * (10.0 if fault in theme.faults else rng.choice((0.1, 1.0, 1.0, 10.0))))
        for fault in Fault
        if fault in enabled and fault not in AT_A_COMMIT
    )
    queries = tuple(
        _draw_query(rng, theme.work, local_lease=local_lease) for _ in range(1 if rng.random() < 0.75 else 2)
    )
    return Plan(
        seed=seed,
        queries=queries,
        local_lease=local_lease,
        overwrites=overwrites,
        chaos_steps=rng.randrange(150, 500) * len(queries),
        rate=rng.choice((0.005, 0.015, 0.03)),
        commit_rate=0.3 if theme.at_commit else rng.choice((0.0, 0.1, 0.3)),
        stall_rate=rng.choice((0.1, 0.5)) if theme is _NO_THEME else 0.5,
        bursts=rng.choice((0.0, 0.5, 0.9)),
        workers=rng.choice((1, 1, 2)),
        in_process_restarts=rng.choice((0, 2)),
        stalls=theme.stalls
        | frozenset(rng.sample(_STALLS, rng.randrange(5)))
        | ({_PUT} if overwrites else frozenset())
        | (frozenset() if local_lease else _OPENING),
        wakes_after=0 if local_lease else rng.choice((0, 100, 600)),
        general=general,
        at_commit=theme.at_commit + tuple(fault for fault in (*AT_A_COMMIT, *_ALSO_AT_A_COMMIT) if fault in enabled),
    )


def _draw_query(rng: random.Random, work: Work | None, *, local_lease: bool) -> Configuration:
    sinks = "".join(rng.sample("skxf", rng.choice((1, 2, 2))))
    placed = any(kind in sinks for kind in "kx")
    records = rng.randrange(4, 9)
    return Configuration(
        name="drawn",
        work=work or rng.choice(tuple(Work)),
        sinks=sinks,
        local_lease=local_lease,
        max_concurrent=1 if placed else rng.choice((1, 2)),
        records=records,
        chunks=tuple(rng.randrange(1, 4) for _ in range(3)),
        filtered=frozenset(record for record in range(records) if rng.random() < 0.25),
        retain=rng.choice((1, 2, 10)),
        positions=rng.choice((("number",), ("files",), ("kafka",), ("files", "kafka"))),
    )


_OVERWRITTEN: Final = 0.5
"""The share of the seeds with a remote lease whose log is on an object store."""

_THEME_OF_AN_OVERWRITTEN_LOG: Final = 0.6

_PUT: Final = "spark.put"
"""Before this step a thread is about to overwrite what another driver may have written meanwhile."""

_OPENING: Final = frozenset({"seal", "generation"})
"""Before these steps a driver is about to end a generation that another one may continue."""

_ENABLED: Final = {Fault.EXPIRE_EVIDENCE: 0.08}
"""The chance of a kind to be switched on, where it is not the usual one: this one ends most of its seeds early."""

_ALSO_AT_A_COMMIT: Final = (Fault.TIME_OUT, Fault.ROLL_BACK, Fault.EXPIRE_IDS, Fault.EXPIRE_EVIDENCE)
"""What makes a commit find its transaction gone."""

_WEIGHT: Final = {
    Fault.STALL: 2.0,
    Fault.PAUSE: 2.0,
    Fault.SECOND_DRIVER: 2.0,
    Fault.LOSE_TASK: 2.0,
    Fault.SPECULATE: 2.0,
    Fault.TIME_OUT: 2.0,
    Fault.NEW_GENERATION: 0.5,
    Fault.DISK_FULL: 0.5,
    Fault.SOURCE_BACK: 0.5,
}


@dataclass(frozen=True, slots=True)
class _Theme:
    """Faults and stalls that are worth little alone: an interleaving needs all of them."""

    stalls: frozenset[str] = frozenset()
    faults: frozenset[Fault] = frozenset()
    work: Work | None = None
    at_commit: tuple[Fault, ...] = ()


_NO_THEME: Final = _Theme()
_THEMES: Final = (
    # Two finishers write a lost transaction again.
    _Theme(
        frozenset({"redo.fenced", "redo.written"}),
        frozenset({Fault.TIME_OUT, Fault.ROLL_BACK}),
        at_commit=(Fault.TIME_OUT, Fault.TIME_OUT, Fault.ROLL_BACK, Fault.ROLL_BACK),
    ),
    # Two runs prepare an epoch, and a decision comes when there is more to choose from than its author saw.
    _Theme(frozenset({"decision", "spark.commits", "prepared"}), frozenset({Fault.SECOND_DRIVER}), work=Work.STATELESS),
    # A decision, or Spark's entry below it, comes when a successor has passed there.
    _Theme(frozenset({"decision", "spark.commits"}), frozenset({Fault.PAUSE})),
    # A run is ended from inside while its stream thread is about to write.
    _Theme(frozenset({"spark.commits"}), frozenset({Fault.RESTART_RUN, Fault.KILL_PYTHON})),
    # An answer is lost, and then so long a time passes that the sink has forgotten what it knew.
    _Theme(
        faults=frozenset({Fault.EXPIRE_EVIDENCE}), at_commit=(Fault.ANSWER_LOST,) * 4 + (Fault.EXPIRE_EVIDENCE,) * 4
    ),
    # Recovery mends a log that somebody else mends too.
    _Theme(frozenset({"heal.aside", "heal.entry"}), frozenset({Fault.POWER_LOSS, Fault.SOURCE_BACK})),
    # Attempts that nobody waits for prepare late.
    _Theme(frozenset({"task.write", "task.prepare", "task.opener"}), frozenset({Fault.SPECULATE, Fault.PAUSE})),
    # A finisher stands still between its records.
    _Theme(frozenset({"done", "finished", "gc.clean"}), frozenset({Fault.PAUSE, Fault.POWER_LOSS})),
)
_OVERWRITING: Final = _Theme(
    frozenset({_PUT}), frozenset({Fault.SECOND_DRIVER, Fault.PAUSE, Fault.KILL_DRIVER}), work=Work.STATEFUL
)
"""A driver is about to write an entry, and its successor has computed the same epoch meanwhile."""

_STALLS: Final = (
    "spark.commits",
    "spark.offsets",
    "spark.start",
    "prepared",
    "decision",
    "commit",
    "redo.written",
    "spark.commits",
    "redo.fenced",
    "redo.looked",
    "redo.written",
    "done",
    "finished",
    "recover.aborted",
    "recover.discarded",
    "recover.position",
    "heal.aside",
    "heal.aside",
    "decision",
    "heal.entry",
    "gc.clean",
    "task.open",
    "task.write",
    "task.prepare",
    "task.report",
    "task.opener",
)
"""Before which steps a thread may be made to stand still on purpose: rare interleavings begin there."""
