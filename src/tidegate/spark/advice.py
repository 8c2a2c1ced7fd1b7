"""Advice to a program, logged after its job has begun well: if a start fails, only its error is shown."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence

from tidegate.channels.channel import Channel
from tidegate.core.effects import Happening
from tidegate.core.fingerprints import without_uid
from tidegate.core.happenings import EpochDone
from tidegate.settings.config import Settings
from tidegate.settings.rules import notes
from tidegate.sinks.base import TwoPhaseSink
from tidegate.spark.companions import Companion
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.state.backend import partitions_kept

_LOG = logging.getLogger("tidegate")


class Advice(Companion):
    """Logs each text once: after the first done epoch, or when a job without one ends well."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = list(texts)
        self._lock = threading.Lock()

    def happened(self, query: str, run: int, happening: Happening) -> None:
        if run and isinstance(happening, EpochDone):  # run 0: recovery finishes an older epoch, and the start continues
            self._say()

    def ended(self, error: BaseException | None) -> None:
        if error is None:
            self._say()

    def _say(self) -> None:
        with self._lock:
            texts, self._texts = self._texts, []
        for text in texts:
            _LOG.warning("%s", text)


def advice_for(job: str, settings: Settings, plans: Sequence[QueryPlan], uids: Iterable[str]) -> Iterator[str]:
    """Settings without the expected effect, because of other settings or of the checkpoint; stateful operators without
    a uid. `uids`: those of the job.
    """
    for note in notes(settings):
        yield f"job {job}: {note}"
    has_channels = any(isinstance(sink, Channel) for plan in plans for sink in plan.sinks.values())
    if settings.max_concurrent > 1 and has_channels:
        yield (
            f"job {job}: checkpointing.max_concurrent is 1 and not {settings.max_concurrent}: the job has channels, "
            "and the end of an epoch is a barrier between its queries"
        )
    if has_channels and any(not (plan.folder.is_local or plan.store.names_files) for plan in plans):
        yield (
            f"job {job}: it retains no checkpoints, because its state is in hashmap and not on a local disk: a late "
            "driver can overwrite a file there before it is held. Use rocksdb, or take savepoints"
        )
    for plan in plans if settings.max_concurrent > 1 and not has_channels else ():
        for uid in places_at_once(plan.sinks.values())[:1]:
            yield (
                f"{plan.query}: checkpointing.max_concurrent is 1 and not {settings.max_concurrent}: the rows that "
                f"sink {uid} prepares already have their place among those of later epochs"
            )
    wanted = settings.parallelism
    for plan in (each for each in plans if wanted is not None):
        kept = partitions_kept(plan.folder / "spark")
        if kept not in (None, wanted):
            yield (
                f"{plan.query}: parallelism = {wanted} does nothing: the first epoch has fixed {kept} partitions, and "
                f"they stay. To change it, stop the job with a savepoint (tidegate stop {job} -p DIR) and"
                " restore that: "
                f"tidegate run -s SAVEPOINT -D parallelism={wanted} APP"
            )
    for text in operators_without_uid(plans, uids):
        yield f"job {job}: {text}"


def places_at_once(sinks: Iterable[TwoPhaseSink]) -> list[str]:
    """The sinks whose prepared rows already have their place: with them no epoch waits behind a decided one."""
    return [sink.uid for sink in sinks if sink.places_rows()]


def operators_without_uid(plans: Iterable[QueryPlan], uids: Iterable[str]) -> Iterator[str]:
    """A line of code to add, for each stateful operator without a uid. `uids`: those of the job."""
    taken = set(uids)
    for query in (plan.query for plan in plans):
        yield from without_uid(query.uid, query.fingerprints or (), taken)
