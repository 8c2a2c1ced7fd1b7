"""Finishes the decided epochs of a job that does not run, with the protocol's own steps and without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tidegate.core import effects as fx
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import Query
from tidegate.core.recover import finish_decided
from tidegate.core.seal import seal_generation
from tidegate.operate.place import QueryPlace
from tidegate.operate.runner import Runner
from tidegate.sinks.base import TwoPhaseSink
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

_PAUSE_SECONDS_AT_MOST = 1.0


def finish(
    place: QueryPlace,
    query: Query,
    sinks: Mapping[str, TwoPhaseSink],
    through: int,
    patience_seconds: float,
    reach: Callable[[str, int | None], None],
) -> list[int]:
    """Finish the decided epochs of a query up to `through`; return their numbers. `sinks`: the sinks of these epochs.

    The caller must hold the job's locks. Raises SINK_UNAVAILABLE if a sink is not ready within `patience_seconds`, and
    all errors of a commit.
    """
    return _runner(place.folder, query, sinks, patience_seconds, reach).run(finish_decided(query, through))


def seal(
    generation: Folder,
    query: Query,
    sinks: Mapping[str, TwoPhaseSink],
    patience_seconds: float,
    reach: Callable[[str, int | None], None],
) -> int:
    """Seal the generation of a query in this folder. Returns its last epoch. Raises like `finish`."""
    return _runner(generation, query, sinks, patience_seconds, reach).run(seal_generation(query))


def _runner(
    generation: Folder,
    query: Query,
    sinks: Mapping[str, TwoPhaseSink],
    patience_seconds: float,
    reach: Callable[[str, int | None], None],
) -> Runner:
    return Runner(
        query=query,
        storage=open_storage(generation),
        sinks=sinks,
        journal_folder=generation / "ledger" / "journal",
        checkpoint=open_checkpoint_files(generation / "spark"),
        port=_Port(time.monotonic() + patience_seconds),
        reach=reach,
    )


class _Port:
    """A run without Spark: it waits for a sink for a limited time and reports nothing."""

    def __init__(self, give_up_at: float) -> None:
        self._give_up_at = give_up_at

    def hesitate(self, effect: fx.Hesitate) -> None:
        left = self._give_up_at - time.monotonic()
        if left <= 0:
            raise TidegateError(
                Code.SINK_UNAVAILABLE,
                expected=f"sink {effect.sink} to take epoch {effect.epoch}",
                found=effect.detail or "it is not ready",
                where=f"sink {effect.sink}",
                next_step="fix the problem that the sink reports above (`tidegate check --job JOB` tries its sinks),"
                " then repeat the request or start the job: the epoch is decided and waits",
            )
        time.sleep(min(left, 0.05 * 2 ** min(effect.attempt, 10), _PAUSE_SECONDS_AT_MOST))

    def tell(self, happening: fx.Happening) -> None:
        pass

    def compute(self, effect: fx.Compute) -> fx.Computed:
        raise RuntimeError(f"no Spark is here to compute epoch {effect.epoch}")

    def await_finished(self, epoch: int) -> int:
        raise RuntimeError(f"no other thread is here to finish epoch {epoch}")

    def await_commits(self, epoch: int) -> bool:
        raise RuntimeError(f"no Spark is here to continue after epoch {epoch}")
