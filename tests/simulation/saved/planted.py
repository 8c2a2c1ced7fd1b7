"""Rules of savepoints, generations and rewind that are broken on purpose: the small world has to notice each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from tests.simulation.saved import job as saved_job
from tests.simulation.saved.stories import Story
from tests.simulation.saved.watched import Hit
from tidegate.checkpoints.done_epoch import done_epoch
from tidegate.core.ledger import DECIDED
from tidegate.core.records import DoneEpoch, FinishedThrough, JobRecord
from tidegate.disk.durable import remove_folder
from tidegate.savepoints import held as savepoint_held
from tidegate.savepoints import restore as savepoint_restore
from tidegate.savepoints import settled as savepoint_settled
from tidegate.savepoints import take as savepoint_take
from tidegate.savepoints.hold import RunningQuery
from tidegate.spark import restore_carried_out, restore_judged, restoring
from tidegate.spark.given_up import GivenUp
from tidegate.spark.restoring import JobRestore
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder


@dataclass(frozen=True, slots=True)
class Planted:
    """A broken rule, and the story and strikes among which it comes to light; None: without any."""

    rule: str
    plant: Callable[[], AbstractContextManager[object]]
    story: Story
    hit: Hit | None = None


def _in(owner: object, name: str, wrong: Any) -> Callable[[], AbstractContextManager[object]]:
    return lambda: mock.patch.object(owner, name, wrong)


def _both(*plants: Callable[[], AbstractContextManager[object]]) -> Callable[[], AbstractContextManager[object]]:
    @contextmanager
    def planted() -> Generator[None, None, None]:
        with ExitStack() as stack:
            for plant in plants:
                stack.enter_context(plant())
            yield

    return planted


def _nothing(*_: object) -> None:
    pass


def _no_error(*_: object) -> Iterator[Any]:
    return iter(())


_TARGET = restoring._target  # pyright: ignore[reportPrivateUsage]
_WAS_OPENED_FROM = restoring._was_opened_from  # pyright: ignore[reportPrivateUsage]


def _same_generation(wish: Any, savepoint: Any, job: str, folder: Path, found: JobRecord | None) -> JobRecord:
    return found or _TARGET(wish, savepoint, job, Folder.of(folder), found)


def _saved_id(wish: Any, savepoint: Any, job: str, folder: Path, found: JobRecord | None) -> JobRecord:
    right = _TARGET(wish, savepoint, job, Folder.of(folder), found)
    return msgspec.structs.replace(right, job_id=savepoint.record.job_id)


def _generation_of_savepoint(wish: Any, savepoint: Any, job: str, folder: Path, found: JobRecord | None) -> JobRecord:
    right = _TARGET(wish, savepoint, job, Folder.of(folder), found)
    return msgspec.structs.replace(right, generation=savepoint.record.generation + 1)


def _without_rewind(folder: Folder, rewind: str, job_folder: Path, found: JobRecord) -> bool:
    return rewind == "" and _WAS_OPENED_FROM(folder, rewind, Folder.of(job_folder), found)


def _newest_decided(running: RunningQuery) -> DoneEpoch | None:
    ledger = LocalStorage(running.folder.local())
    newest = max((int(name) for name in ledger.list(DECIDED)), default=-1)
    return done_epoch(running.query, ledger, FinishedThrough(epoch=newest)) if newest >= 0 else None


def _throw_away(folder: Path, current: int) -> None:
    for hidden in folder.glob(".restored-*"):
        remove_folder(hidden)


def _count_first(restore: Any) -> Any:
    savepoint_restore.commit(restore)
    return _PREPARE(restore)


_PREPARE = savepoint_restore.prepare
_KEEPS_FOR_EVER = lambda query, folder, kept: RunningQuery(query, folder, 1 << 30)  # noqa: E731

PLANTED = (
    Planted("a restore opens a new generation", _in(restoring, "_target", _same_generation), Story.UPGRADE),
    Planted(
        "a generation is above all that the job has had",
        _both(
            _in(restoring, "_target", _generation_of_savepoint),
            _in(JobRestore, "above_evidence", lambda restore, plans, level: restore),
        ),
        Story.AGAIN,
    ),
    Planted(
        "a generation is above all that the sinks prove",
        _in(JobRestore, "above_evidence", lambda restore, plans, level: restore),
        Story.CLAIM_BACK,
    ),
    Planted("a sink that is ahead is an obstacle", _in(restore_judged, "judge_sink", _nothing), Story.BACK),
    Planted(
        "what is decided is not abandoned",
        _both(
            _in(GivenUp, "against", _no_error),
            _in(GivenUp, "finish", lambda *_: False),
            _in(GivenUp, "seal", lambda *_: False),
        ),
        Story.CRASHED,
    ),
    Planted(
        "a savepoint is claimed by one job",
        _both(_in(restore_judged, "against_claim", _nothing), _in(restore_carried_out, "claim", _nothing)),
        Story.CLAIM_TWICE,
    ),
    Planted("a job goes back once", _in(restoring, "_was_opened_from", _without_rewind), Story.BACK, Hit.KILL),
    Planted(
        "a job that was opened from a savepoint goes on by itself",
        _in(restoring, "_was_opened_from", lambda *_: False),
        Story.UPGRADE,
        Hit.KILL,
    ),
    Planted("a fork has an id of its own", _in(restoring, "_target", _saved_id), Story.FORK),
    Planted(
        "a generation is whole before it counts",
        _in(restore_carried_out, "prepare", _count_first),
        Story.UPGRADE,
        Hit.KILL,
    ),
    Planted("what was restored is durable", _in(savepoint_restore, "sync_whole", _nothing), Story.UPGRADE, Hit.DROP),
    Planted(
        "a start finishes the restore before it",
        _in(savepoint_settled, "_settle_query", _throw_away),
        Story.UPGRADE,
        Hit.KILL,
    ),
    Planted("a savepoint is of a done epoch", _in(savepoint_held, "newest_done", _newest_decided), Story.MOVED),
    Planted("what Spark removes is held", _in(saved_job, "RunningQuery", _KEEPS_FOR_EVER), Story.QUICK, Hit.BURST),
    Planted("files of a savepoint are durable", _in(savepoint_take, "sync_file", _nothing), Story.UPGRADE, Hit.EMPTY),
    Planted("the name of a savepoint is durable", _in(savepoint_take, "sync_folder", _nothing), Story.BACK, Hit.DROP),
    Planted(
        "a killed savepoint is removed by the next",
        _in(savepoint_take, "remove_folder", _nothing),
        Story.BACK,
        Hit.KILL,
    ),
)
