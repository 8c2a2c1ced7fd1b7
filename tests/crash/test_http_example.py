"""`examples/http_endpoint.py`: killed or stopped while a write of it is under way, or stored and not answered yet."""

from __future__ import annotations

import os
import runpy
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.driver import Driver
from tests.support.today import sampled
from tidegate.operate.checkpoints_history import read_checkpoints
from tidegate.storages.schemes import Folder

EXAMPLE = Path(__file__).parents[2] / "examples" / "http_endpoint.py"
PROGRAM = Path(__file__).with_name("http_program.py")
FILES, ROWS = 6, 5
KILLED_AT = (1, 3)
"""The writes whose senders are killed, by number."""


@dataclass
class Seen:
    """The keys of all writes, and the process that sends now."""

    keys: list[str] = field(default_factory=list[str])
    sender: int = 0


@contextmanager
def endpoint(database: Path) -> Iterator[tuple[str, Seen]]:
    """The example's endpoint. Instead of an answer to two of the writes it kills their sender."""
    kept: Any = runpy.run_path(str(EXAMPLE))["Endpoint"]
    seen = Seen()

    class Killing(kept):
        def stored(self) -> None:
            seen.keys.append(self.headers["Idempotency-Key"])
            if len(seen.keys) - 1 in KILLED_AT:
                os.killpg(seen.sender, signal.SIGKILL)

    Killing.database = database
    with serving(Killing) as url:
        yield url, seen


@contextmanager
def serving(handler: Any) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/orders"
        finally:
            server.shutdown()
            thread.join()


def write_input(folder: Path) -> list[int]:
    """The input of the program; the ids of its orders."""
    (folder / "in").mkdir()
    for number in range(FILES):
        lines = [f'{{"value": {number * ROWS + row}}}\n' for row in range(ROWS)]
        (folder / "in" / f"{number}.json").write_text("".join(lines))
    return list(range(FILES * ROWS))


def stored_ids(folder: Path) -> list[int]:
    with closing(sqlite3.connect(folder / "endpoint.db")) as database:
        return sorted(number for (number,) in database.execute("SELECT id FROM orders"))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("proving", sampled([pytest.param("proving"), pytest.param("unproven")], every=4))
def test_a_driver_that_died_between_write_and_answer_repeats_nothing_that_can_be_proven(
    tmp_path: Path, proving: str
) -> None:
    expected = write_input(tmp_path)
    with endpoint(tmp_path / "endpoint.db") as (url, seen):
        for code in (-signal.SIGKILL, -signal.SIGKILL, 0):
            with Driver(PROGRAM, str(tmp_path), url, proving, log=tmp_path / "log") as driver:
                seen.sender = driver.process.pid
                assert driver.wait() == code, driver.tail()
    ids = stored_ids(tmp_path)
    assert sorted(set(ids)) == expected
    history = read_checkpoints(Folder.of(tmp_path / "checkpoints" / "orders"))
    counted = sum(each.shown_again for each in history)
    if proving == "proving":
        assert (ids, counted) == (expected, 0)
        assert len(set(seen.keys)) == len(seen.keys), "the driver asked before it wrote again"
    else:
        assert len(ids) - len(expected) == counted > 0, "each row that came twice is counted"


@pytest.mark.more
@pytest.mark.timeout(300)
@pytest.mark.parametrize("takes_twice", [False, True], ids=["a key once", "a key twice"])
def test_a_write_whose_sender_died_and_that_is_stored_behind_its_successors_is_stopped_by_its_key_alone(
    tmp_path: Path, takes_twice: bool
) -> None:
    """The first write is under way when its sender is killed. The successor asks, hears no, and writes."""
    kept: Any = runpy.run_path(str(EXAMPLE))["Endpoint"]
    seen, go_on, stored = Seen(), threading.Event(), threading.Event()

    class Late(kept):
        def do_POST(self) -> None:  # noqa: N802
            seen.keys.append(self.headers["Idempotency-Key"])
            if len(seen.keys) > 1:
                super().do_POST()
                return
            os.killpg(seen.sender, signal.SIGKILL)
            assert go_on.wait(240)
            if takes_twice:
                self.headers.replace_header("Idempotency-Key", "of no meaning to this endpoint")
            super().do_POST()

        def stored(self) -> None:
            if go_on.is_set():
                stored.set()

    Late.database = tmp_path / "endpoint.db"
    expected = write_input(tmp_path)
    with serving(Late) as url:
        try:
            for code in (-signal.SIGKILL, 0):
                with Driver(PROGRAM, str(tmp_path), url, "proving", log=tmp_path / "log") as driver:
                    seen.sender = driver.process.pid
                    assert driver.wait() == code, driver.tail()
            assert stored_ids(tmp_path) == expected
        finally:
            go_on.set()
        assert stored.wait(60)
    assert seen.keys[0] == seen.keys[1]
    assert stored_ids(tmp_path) == sorted([*expected, *(expected[:ROWS] if takes_twice else [])])


@pytest.mark.more
@pytest.mark.timeout(300)
def test_a_driver_that_was_stopped_before_its_answer_goes_on_and_meanwhile_no_other_one_may(tmp_path: Path) -> None:
    """On a disk a driver that is stopped keeps its locks."""
    kept: Any = runpy.run_path(str(EXAMPLE))["Endpoint"]
    seen = Seen()

    class Stopping(kept):
        def stored(self) -> None:
            seen.keys.append(self.headers["Idempotency-Key"])
            if len(seen.keys) == 1:
                os.killpg(seen.sender, signal.SIGSTOP)

    Stopping.database = tmp_path / "endpoint.db"
    expected = write_input(tmp_path)
    with serving(Stopping) as url, Driver(PROGRAM, str(tmp_path), url, "proving", log=tmp_path / "log") as driver:
        seen.sender = driver.process.pid
        driver.wait_until_stopped()
        with Driver(PROGRAM, str(tmp_path), url, "proving", log=tmp_path / "second") as second:
            assert second.wait() != 0
            assert "TG-DRIVER-ALIVE" in second.tail(100_000)
        os.killpg(seen.sender, signal.SIGCONT)
        assert driver.wait() == 0, driver.tail()
    assert stored_ids(tmp_path) == expected
    assert len(set(seen.keys)) == len(seen.keys)
