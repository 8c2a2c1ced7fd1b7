"""`examples/checkpoint_config.py` does what its head says, as a process of its own in an empty folder."""

from __future__ import annotations

import importlib.util
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.driver import Driver
from tests.support.line_server import LineServer
from tidegate.core.config import SETTINGS

EXAMPLE = Path(__file__).parents[2] / "examples" / "checkpoint_config.py"
_OF_OTHER_STRATEGIES = ("restart_fixed_delay_", "restart_failure_rate_")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("at_most_once", [False, True])
def test_it_sets_every_setting_there_is_and_each_is_taken(at_most_once: bool) -> None:
    taken = example().declare(at_most_once=at_most_once).settings
    every = {each.name for name, each in SETTINGS.items() if not name.startswith(_OF_OTHER_STRATEGIES)}
    assert set(taken.origins) == every


@pytest.mark.more
@pytest.mark.timeout(300)
def test_it_counts_every_word_that_arrived_and_ctrl_c_ends_it_well(tmp_path: Path) -> None:
    with LineServer(lines_per_second=100) as server, job(tmp_path, server) as driver:
        wait_for(lambda: sum(counts("counts.db").values()) > 0, driver)
        server.fall_silent()
        wait_for(lambda: counts("counts.db") == words_of(server), driver)
        driver.process.send_signal(signal.SIGINT)
        assert driver.wait() == 0, driver.tail()


@pytest.mark.more
@pytest.mark.timeout(300)
def test_killed_and_started_again_it_goes_on_where_it_was(tmp_path: Path) -> None:
    with feeding() as port:
        with Driver(EXAMPLE, "--port", str(port), log=tmp_path / "log") as driver:
            wait_for(lambda: sum(counts("counts.db").values()) > 100, driver)
        before = counts("counts.db")["and"]
        with Driver(EXAMPLE, "--port", str(port), log=tmp_path / "log") as driver:
            wait_for(lambda: counts("counts.db")["and"] != before, driver)
            assert counts("counts.db")["and"] > before


@pytest.mark.more
@pytest.mark.timeout(300)
def test_killed_and_started_again_at_most_once_begins_anew(tmp_path: Path) -> None:
    """However slow the machine, and however much its first epoch takes at once: the second start shows each word as
    often as it was sent to it. "ebb" is new to it, "sea" is not."""
    with LineServer(lines_per_second=100) as server, job(tmp_path, server, "--at-most-once") as driver:
        wait_for(lambda: sum(counts("at-most-once.db").values()) > 100, driver)
    assert counts("at-most-once.db")["sea"] > 0
    tide = LineServer(lines_per_second=100, words=("ebb", "sea"))
    with tide as server, job(tmp_path, server, "--at-most-once") as driver:
        wait_for(lambda: len(server.sent) > 100, driver)
        server.fall_silent()
        wait_for(lambda: words_of(server).items() <= counts("at-most-once.db").items(), driver)


def example() -> ModuleType:
    found = importlib.util.spec_from_file_location("checkpoint_config", EXAMPLE)
    assert found
    assert found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def job(folder: Path, server: LineServer, *arguments: str) -> Driver:
    return Driver(EXAMPLE, "--port", str(server.port), *arguments, log=folder / "log")


def words_of(server: LineServer) -> Counter[str]:
    """How often it has sent each word."""
    return Counter(" ".join(server.sent).split())


@contextmanager
def feeding() -> Iterator[int]:
    """The example's own server, on a port that was free."""
    with LineServer() as server:
        port = server.port
    command = [sys.executable, str(EXAMPLE), "--feed", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=dict(os.environ)) as process:
        yield port
        process.kill()


def counts(path: str) -> Counter[str]:
    """What a reader of the table sees; nothing while there is none."""
    if not Path(path).exists():
        return Counter()
    with closing(sqlite3.connect(path, timeout=30)) as database:
        known = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'counts'").fetchone()
        return Counter(dict(database.execute("SELECT word, count FROM counts"))) if known else Counter()


def wait_for(seen: Callable[[], bool], driver: Driver) -> None:
    end = time.monotonic() + 120
    while not seen():
        assert driver.process.poll() is None, driver.tail()
        assert time.monotonic() < end, driver.tail()
        time.sleep(0.05)
