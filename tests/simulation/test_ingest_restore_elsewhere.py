"""A restore joins two ingest logs off a disk: it dies before each request, beside a driver that was paused.

Whatever happens, the log that counts in the end has every row that was confirmed, once and in order; and no older log
takes the place of a newer one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from tests.simulation.openers_memory import in_memory
from tests.support.ingest_contract import read
from tests.support.today import today
from tidegate.checkpoints import ingest_pieces
from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.checkpoints.ingest_part import bring_part_from
from tidegate.checkpoints.ingest_pieces import PieceLog
from tidegate.checkpoints.succession import (
    begin_job,
    demand_standing,
    end_preparation,
    open_next,
    reserve,
    standing,
)
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import JobRecord
from tidegate.savepoints import ingest_restore_elsewhere
from tidegate.savepoints.fresh import highest_generation
from tidegate.savepoints.ingest_join import SavedLog
from tidegate.savepoints.ingest_restore_elsewhere import join_elsewhere, prepare_logs_elsewhere, settle_logs_elsewhere
from tidegate.savepoints.settled import settle
from tidegate.storages.schemes import Folder
from tidegate.testing.memory_storage import Memory

JOB, AWAY = Folder.of("s3://bucket/job"), Folder.of("s3://bucket/away")
FIRST = JobRecord(name="job", job_id="0f1e2d3c", generation=1)
LINES = [b"1", b"2", b"3"]
BROUGHT = [b"4", b"5"]
"""What the job has taken in while it was in the other folder."""
WHERE = "source lines"


class Killed(BaseException):
    """The process ends before a request."""


class World:
    """A job that has left its folder with a savepoint, and comes back with a later one. `source`: its uid by now."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.memory = Memory()
        self.at: dict[int, Callable[[], None]] = {}
        """What happens before a request of the restore, by its number."""
        self.requests = 0
        self.confirmed: list[bytes] = []
        self._is_watched = False

    def step(self) -> None:
        if self._is_watched:
            self.requests += 1
            self._is_watched = False  # what others do is not counted
            try:
                self.at.get(self.requests, _nothing)()
            finally:
                self._is_watched = True

    def begin(self, root: Path) -> None:
        begin_job(JOB, FIRST)
        begin = PieceLog(JOB / INGEST / "lines").end
        log = PieceLog(JOB / INGEST / "lines")
        for line in LINES:
            log.append([line])
        bring_part_from(JOB / INGEST / "lines", begin, root / "before", WHERE)
        joined = join_elsewhere("lines", AWAY / INGEST, SavedLog(root / "before", is_ours=True), WHERE)
        prepare_logs_elsewhere(AWAY, 2, [joined], replaces=False)
        settle_logs_elsewhere(AWAY, 2)
        log = PieceLog(AWAY / INGEST / "lines")
        for line in BROUGHT:
            log.append([line])
        bring_part_from(AWAY / INGEST / "lines", begin, root / "saved", WHERE)
        PieceLog(JOB / INGEST / "lines")  # the job was started here once more

    def restore(self, root: Path) -> None:
        """As a start does it."""
        self._is_watched = True
        try:
            settle(JOB)
            older = standing(JOB)
            assert older is not None
            newer = msgspec.structs.replace(older, generation=highest_generation(JOB) + 1)
            joined = join_elsewhere(self.source, JOB / INGEST, SavedLog(root / "saved", is_ours=True), WHERE)
            reserve(JOB, older, newer)
            prepare_logs_elsewhere(JOB, newer.generation, [joined])
            end_preparation(JOB, newer, [])
            open_next(JOB, older, newer)
            settle(JOB)
        finally:
            self._is_watched = False

    def lines(self) -> list[bytes]:
        return read(PieceLog(JOB / INGEST / self.source))


class Late:
    """A driver of the first generation that was paused. It has lost its lease, and does not know it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.log: PieceLog | None = None

    def open(self) -> None:
        """As a start does it: no feed begins in a generation that does not count any more."""
        with suppress(TidegateError):
            log = PieceLog(JOB / INGEST / "lines")
            demand_standing(JOB, FIRST, FIRST)
            self.log = log

    def append(self) -> None:
        with suppress(TidegateError):
            if self.log is not None:
                self.log.append([b"late"])
                self.world.confirmed.append(b"late")


def broken(source: str, root: Path, *, opens: int = 0, appends: int = 0, dies: int = 0) -> tuple[str, int]:
    """What is wrong in the end, and how many requests the restore has made. 0: it does not happen."""
    world = World(source)
    late = Late(world)
    with in_memory(world.memory, world.step):
        world.begin(root)
        acts = ((opens, late.open), (appends, late.append), (dies, _die))
        world.at = {number: _all([act for at, act in acts if at == number]) for number in {opens, appends, dies} - {0}}
        code = None
        try:
            world.restore(root)
        except Killed:
            pass
        except TidegateError as error:
            code = error.catalogue_entry
        made, world.at = world.requests, {}
        settle(JOB)
        before = read(PieceLog(JOB / INGEST / "lines")) if standing(JOB) == FIRST else None
        if before is not None and [line for line in before if line in LINES] != LINES:
            return f"without the restore the log has {before}", made
        found = read(PieceLog(JOB / INGEST / source)) if before is None else before
        if b"late" in [*found, *world.confirmed]:
            return ("" if found.count(b"late") == 1 else f"a confirmed row is lost: {found}"), made
        if code not in (None, Code.GENERATION_SEALED, Code.LEASE_LOST):
            return f"refused with {code}", made
        if before is not None:
            world.restore(root)
        return ("" if world.lines() == LINES + BROUGHT else f"restored are {world.lines()}"), made


def _die() -> None:
    raise Killed


def _nothing() -> None:
    pass


def _all(acts: list[Callable[[], None]]) -> Callable[[], None]:
    def act() -> None:
        for each in acts:
            each()

    return act


def pairs(requests: int) -> list[tuple[int, int]]:
    return [(opens, appends) for opens in range(1, requests + 1) for appends in range(opens, requests + 1)]


def in_a_new_folder(find: Callable[[Path], tuple[str, int]]) -> tuple[str, int]:
    with tempfile.TemporaryDirectory(prefix="tidegate-ingest-", dir=_IN_MEMORY) as folder:
        return find(Path(folder))


_IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


@pytest.mark.parametrize("source", ["lines", "renamed"])
def test_it_dies_before_any_request_and_is_whole(source: str) -> None:
    _, requests = in_a_new_folder(lambda root: broken(source, root))
    assert requests > 20
    found = {
        at: wrong
        for at in range(1, requests + 1)
        if (wrong := in_a_new_folder(lambda root, at=at: broken(source, root, dies=at))[0])
    }
    assert found == {}


@pytest.mark.parametrize("source", ["lines", "renamed"])
def test_a_driver_that_was_paused_opens_the_log_and_appends_at_any_time_and_no_row_is_lost(source: str) -> None:
    assert list(beside_a_late_driver(source, every=25)) == []


def beside_a_late_driver(source: str, *, every: int = 1, first: int = 1) -> Iterator[str]:
    """What is wrong, for each pair of requests. `first`: the driver opens the log at this one or later."""
    _, requests = in_a_new_folder(lambda root: broken(source, root))
    for opens, appends in [each for each in pairs(requests) if each[0] >= first][today() % every :: every]:
        wrong, _ = in_a_new_folder(lambda root, at=(opens, appends): broken(source, root, opens=at[0], appends=at[1]))
        if wrong:
            yield f"opened at {opens}, appended at {appends}: {wrong}"


PLANTED: dict[str, tuple[object, str, object, int]] = {
    "an opener looks whether the log is replaced": (ingest_pieces, "is_being_replaced", lambda _storage: False, 40),
    "a restore that counts writes its token": (ingest_restore_elsewhere, "OWNER", "no-owner", 40),
    "the restore opens the log": (ingest_restore_elsewhere, "_end_appends", lambda _folder, _end: None, 1),
}
"""By rule: a module, a name in it, its wrong value, and the request at which the search begins."""


@pytest.mark.parametrize("rule", PLANTED)
def test_a_broken_rule_is_seen(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, name, wrong, first = PLANTED[rule]
    monkeypatch.setattr(module, name, wrong)
    seen = next(beside_a_late_driver("lines", first=first), "")
    print(seen)
    assert seen
