"""`tidegate run` makes the archive of Spark's classes beside a job. Small programs stand here for the one that makes
it; `integration/test_warm_up.py` runs the real one."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.machine.class_archive import SUBMIT_OPTIONS, archive_file, environment_to_make
from tidegate.operate.failures import failure_of
from tidegate.operate.reports import report_of
from tidegate.settings.kinds import WarmUp
from tidegate.storages.schemes import Folder
from tidegate.supervise import background_warm_up
from tidegate.supervise.background_warm_up import BackgroundWarmUp
from tidegate.supervise.news import News

MAKES = "import sys; open(sys.argv[1], 'wb').write(b'classes')"
FAILS = "raise SystemExit('the disk is full')"
HANGS = "import sys, time; open(sys.argv[1] + '.begun', 'w').close(); time.sleep(600)"
FAILURE = failure_of(
    report_of(TidegateError(Code.DRIVER_DIED, expected="a driver", found="none", where="job j", next_step="look")),
    at=0.0,
    restart_in_seconds=1.0,
)


class Noted(News):
    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.failures: list[str] = []

    def warmed_up(self, archive: Path, size: int, seconds: float) -> None:
        self.sizes.append(size)

    def warm_up_failed(self, why: str) -> None:
        self.failures.append(why)


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path)}


@pytest.fixture
def archive(environment: Mapping[str, str]) -> Path:
    found = archive_file(environment)
    found.parent.mkdir()
    return found


@pytest.fixture
def makes(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets a program of Python stand for the one that makes the archive."""

    def use(program: str) -> None:
        def command(archive: Path, niceness: int) -> list[str]:
            assert niceness == 19
            return [sys.executable, "-c", program, str(archive)]

        monkeypatch.setattr(background_warm_up, "command_to_make", command)

    use(MAKES)
    return use


@contextmanager
def beside_a_job(
    environment: Mapping[str, str], warm_up: WarmUp = WarmUp.BACKGROUND, after_seconds: float = 0.0
) -> Iterator[tuple[BackgroundWarmUp, Noted]]:
    """A job that runs since now."""
    noted = Noted()
    beside = BackgroundWarmUp(noted, environment, after_seconds)
    beside.declared("job", Folder.of(Path("folder")), warm_up)
    beside.running()
    try:
        yield beside, noted
    finally:
        beside.close()


def wait_for(seen: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not seen():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.usefixtures("makes")
def test_a_job_that_runs_long_enough_makes_it_once_and_says_its_size(environment: Mapping[str, str], archive: Path):
    with beside_a_job(environment) as (beside, noted):
        wait_for(lambda: noted.sizes)
        archive.unlink()
        beside.failed(FAILURE)
        beside.running()
    assert (noted.sizes, noted.failures, archive.exists()) == ([7], [], False)


@pytest.mark.usefixtures("makes")
def test_a_job_that_ends_before_makes_none(environment: Mapping[str, str], archive: Path):
    with beside_a_job(environment, after_seconds=3600.0):
        pass
    assert not archive.exists()


@pytest.mark.usefixtures("makes")
def test_a_failure_begins_the_time_anew(environment: Mapping[str, str], archive: Path):
    """The machine has better to do while a job restarts."""
    with beside_a_job(environment, after_seconds=0.5) as (beside, noted):
        beside.failed(FAILURE)
        time.sleep(1.0)
        assert not archive.exists()
        beside.running()
        wait_for(lambda: noted.sizes)


@pytest.mark.usefixtures("makes")
def test_off_makes_none_and_neither_does_an_archive_that_is_there_or_one_of_the_users_own(
    environment: Mapping[str, str], archive: Path
):
    own = {**environment, SUBMIT_OPTIONS: "-XX:SharedArchiveFile=mine.jsa"}
    for known, warm_up in ((environment, WarmUp.OFF), (own, WarmUp.BACKGROUND)):
        with beside_a_job(known, warm_up) as (_, noted):
            time.sleep(0.3)
        assert (noted.sizes, archive.exists()) == ([], False)
    archive.write_bytes(b"older")
    with beside_a_job(environment) as (_, noted):
        time.sleep(0.3)
    assert (noted.sizes, archive.read_bytes()) == ([], b"older")


def test_an_archive_that_cannot_be_made_is_told_in_one_line(
    environment: Mapping[str, str], archive: Path, makes: Callable[[str], None]
):
    makes(FAILS)
    with beside_a_job(environment) as (_, noted):
        wait_for(lambda: noted.failures)
    assert (noted.failures, archive.exists()) == (["the disk is full"], False)


def test_the_end_of_the_supervisor_ends_it(environment: Mapping[str, str], archive: Path, makes: Callable[[str], None]):
    makes(HANGS)
    with beside_a_job(environment) as (_, noted):
        wait_for(archive.with_name(f"{archive.name}.begun").exists)
        begun = time.monotonic()
    assert time.monotonic() - begun < 20
    assert (noted.sizes, noted.failures) == ([], [])


def test_settings_of_the_job_are_not_for_the_job_that_makes_it():
    assert environment_to_make({"TIDEGATE_STATE_BACKEND": "hashmap", "JAVA_HOME": "java"}) == {"JAVA_HOME": "java"}
