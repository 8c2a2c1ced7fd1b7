"""`examples/checkpoint_config.py` does what its head says, as a process of its own in an empty folder."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

from tests.integration.place import Place
from tests.support.cards import states_on_the_page
from tests.support.driver import Driver
from tests.support.peer import Peer
from tests.support.today import turn

EXAMPLE = Path(__file__).parents[2] / "examples" / "checkpoint_config.py"


def test_it_has_the_values_of_the_program_that_it_stands_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    settings = example().declare("localhost", 7777).settings
    shown = {name: str(getattr(settings, name.replace(".", "_"))) for name in settings.origins}
    assert shown == {
        "checkpointing.interval": "5.0",
        "checkpointing.mode": "Level.EXACTLY_ONCE",
        "checkpointing.dir": ".tidegate",
        "checkpointing.timeout": "60.0",
        "checkpointing.max_concurrent": "1",
        "checkpointing.min_pause": "1.0",
        "checkpointing.retention": "Retention.RETAIN",
        "checkpointing.retained": "3",
        "checkpointing.tolerable_failures": "10",
        "checkpointing.unaligned": "True",
        "checkpointing.aligned_timeout": "1.0",
        "checkpointing.after_tasks_finish": "True",
        "state.backend": "Backend.ROCKSDB",
        "state.incremental": "True",
        "state.changelog": "True",
        "parallelism": "1",
        "savepoints.dir": ".tidegate-savepoints",
    }


@turn(0, of=2)
@pytest.mark.timeout(300)
def test_it_prints_the_count_of_every_word_that_arrived_and_ctrl_c_ends_it_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_UI_PORT", "0")
    log = tmp_path / "log"
    with Peer() as peer, Driver(EXAMPLE, "--port", str(peer.port), log=log) as driver:
        peer.send(b"tide and gate\n", within_seconds=120)
        wait_for(lambda: printed(log) == {"tide": 1, "and": 1, "gate": 1}, driver)
        peer.send(b"and sea\n")
        wait_for(lambda: printed(log) == {"tide": 1, "and": 2, "gate": 1, "sea": 1}, driver)
        wait_for(lambda: states_on_the_page(log.read_text()) == {"counts": "RUNNING"}, driver)
        driver.process.send_signal(signal.SIGINT)
        assert driver.wait() == 0, driver.tail()


def printed(log: Path) -> dict[str, int]:
    """The newest count of each word, as the tables show it."""
    return {word: int(count) for word, count in re.findall(r"│ (\w+) +│ (\d+) +│", log.read_text())}


def example() -> ModuleType:
    found = util.spec_from_file_location("checkpoint_config", EXAMPLE)
    assert found
    assert found.loader
    module = util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def wait_for(seen: Callable[[], bool], driver: Driver) -> None:
    end = time.monotonic() + 120
    while not seen():
        assert driver.process.poll() is None, driver.tail()
        assert time.monotonic() < end, driver.tail()
        time.sleep(0.05)
