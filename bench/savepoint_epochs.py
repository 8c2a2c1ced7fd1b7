"""How much the epochs of a job slow down while its savepoint is taken.

One job, whose next epoch begins at once. Stretches of its epochs take turns: in one nothing else happens, in the other
one savepoint after another is taken and removed behind the stretch. Only epochs that lie in a stretch as a whole count,
from `offsets/N` to `offsets/N+1`. The figure is made of the mean of a stretch, not the median: an epoch that waits for
a disk that is being filled is one of many. The longest epoch of the stretches stands beside it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, median

from bench.figures import Better, Figure
from bench.savepoint_job import FILLED, KEYS, QUERY, QUICK_KEYS, job_of, remove, settle, wait_for_done
from bench.seen import Seen, told
from bench.session import shared_session
from tidegate import JobHandle

_EPOCHS, _QUICK_EPOCHS = 40, 6
_WARM_UP, _QUICK_WARM_UP = 60, 10
_GOAL_PERCENT = 20.0


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """Two figures: how much longer an epoch takes, and the longest one."""
    keys, epochs = (QUICK_KEYS, _QUICK_EPOCHS) if quick else (KEYS, _EPOCHS)
    samples: dict[str, list[list[float]]] = {"baseline": [], "tidegate": []}
    with shared_session() as session, tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        place, seen = Path(folder), Seen.of_job(Path(folder) / "checkpoints", 0)
        with told(seen):
            handle = job_of(session, place, keys).start()
            try:
                wait_for_done(handle, FILLED + (_QUICK_WARM_UP if quick else _WARM_UP))
                for number in range(rounds):
                    samples["baseline"].append(_undisturbed(handle, seen, epochs))
                    samples["tidegate"].append(_saving(handle, seen, epochs, place / f"saved-{number}"))
                    remove(place / f"saved-{number}")
                    settle(place)
            finally:
                handle.stop()
    return figures(samples)


def figures(stretches: Mapping[str, list[list[float]]]) -> list[Figure]:
    """From the times of epochs in milliseconds, by side and stretch."""
    means = {side: [round(fmean(each), 1) for each in rounds] for side, rounds in stretches.items()}
    longest = {side: [round(max(each), 1) for each in rounds] for side, rounds in stretches.items()}
    return [
        Figure(
            name="savepoint-epochs",
            what="how much longer an epoch of ten rows takes while savepoints are taken, one after another; baseline: "
            "the same job between them",
            value=round((median(means["tidegate"]) / median(means["baseline"]) - 1) * 100, 1),
            unit="%",
            better=Better.LOWER,
            goal=_GOAL_PERCENT,
            samples={f"{side} epoch ms": each for side, each in means.items()},
        ),
        Figure(
            name="savepoint-longest-epoch",
            what="the longest epoch of these rounds, with savepoints",
            value=max(longest["tidegate"]),
            unit="ms",
            better=Better.LOWER,
            goal=None,
            samples={f"{side} longest ms": each for side, each in longest.items()},
        ),
    ]


def periods_ms(begun: Mapping[int, float], since: float, until: float) -> list[float]:
    """How long the epochs took that lie between two moments as a whole."""
    inside = [epoch for epoch in sorted(begun) if begun[epoch] >= since and begun.get(epoch + 1, until + 1) <= until]
    return [(begun[epoch + 1] - begun[epoch]) * 1000 for epoch in inside]


def _undisturbed(handle: JobHandle, seen: Seen, epochs: int) -> list[float]:
    since = time.time()
    wait_for_done(handle, handle.finished()[QUERY] + epochs + 2)  # the first and the last are cut
    return _between(handle, seen, since, time.time())


def _saving(handle: JobHandle, seen: Seen, epochs: int, into: Path) -> list[float]:
    since, first, number = time.time(), handle.finished()[QUERY], 0
    while handle.finished()[QUERY] < first + epochs + 2:
        handle.savepoints().begin(f"{into.name}-{number}", str(into)).result()
        number += 1
    return _between(handle, seen, since, time.time())


def _between(handle: JobHandle, seen: Seen, since: float, until: float) -> list[float]:
    """An epoch's begin is noted when it is done: the last one's, a moment later."""
    wait_for_done(handle, handle.finished()[QUERY] + 1)
    return periods_ms(dict(seen.begun), since, until)
