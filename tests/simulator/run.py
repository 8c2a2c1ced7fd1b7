"""Run one seed, or many in several processes."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tests.simulator.audit import audit
from tests.simulator.faults import Injection
from tests.simulator.plan import draw_plan
from tests.simulator.swarm import Swarm


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a seed gave: complaints (none when all is well), the digest of its trace, what fired and which faults."""

    seed: int
    complaints: list[str]
    digest: str
    steps: int
    figures: Counter[str]
    injections: list[Injection]


@dataclass(slots=True)
class Campaign:
    """Many seeds: `bad` holds the first complaint of each bad one; `digest` is of all traces in their order."""

    seeds: int = 0
    steps: int = 0
    bad: dict[int, str] = field(default_factory=dict[int, str])
    figures: Counter[str] = field(default_factory=Counter[str])
    digests: list[str] = field(default_factory=list[str])

    def add(self, other: Campaign) -> None:
        self.seeds += other.seeds
        self.steps += other.steps
        self.bad |= other.bad
        self.figures += other.figures
        self.digests += other.digests


def run_seed(seed: int, *, injections: Sequence[Injection] | None = None, trace: list[str] | None = None) -> Outcome:
    """Run one seed; with `injections` these faults strike instead of the drawn ones."""
    world = Swarm(draw_plan(seed), injections=injections, trace=trace)
    try:
        world.run()
        complaints = audit(world)
    except Exception as error:  # noqa: BLE001 (a world that breaks is a bad seed like any other)
        complaints = [*world.troubles, f"the world broke: {type(error).__name__}: {error}"]
    return Outcome(seed, complaints, world.digest, world.steps, world.figures, world.injector.kept)


def run_seeds(seeds: range, *, processes: int = 2, batch: int = 50) -> Iterator[Campaign]:
    """Run many seeds; what has come so far, batch by batch and in order."""
    batches = [seeds[index : index + batch] for index in range(0, len(seeds), batch)]
    if processes == 1:
        yield from map(_run_batch, batches)
        return
    with ProcessPoolExecutor(processes) as pool:
        try:
            yield from pool.map(_run_batch, batches)
        finally:
            pool.shutdown(cancel_futures=True)


def _run_batch(seeds: range) -> Campaign:
    campaign = Campaign()
    gc.disable()  # a seed is short and full of cycles: collected behind each batch
    for seed in seeds:
        outcome = run_seed(seed)
        campaign.seeds += 1
        campaign.steps += outcome.steps
        campaign.figures += outcome.figures
        campaign.digests.append(outcome.digest)
        if outcome.complaints:
            campaign.bad[seed] = outcome.complaints[0].splitlines()[0]
    gc.enable()
    gc.collect()
    return campaign
