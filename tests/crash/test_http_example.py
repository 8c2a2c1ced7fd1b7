"""`examples/http_endpoint.py`: killed when the endpoint has stored an epoch and has not answered yet."""

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
    handler: Any = Killing
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/orders", seen
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("proving", sampled([pytest.param("proving"), pytest.param("unproven")], every=4))
def test_a_driver_that_died_between_write_and_answer_repeats_nothing_that_can_be_proven(
    tmp_path: Path, proving: str
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        lines = [f'{{"value": {number * ROWS + row}}}\n' for row in range(ROWS)]
        (tmp_path / "in" / f"{number}.json").write_text("".join(lines))
    with endpoint(tmp_path / "endpoint.db") as (url, seen):
        for code in (-signal.SIGKILL, -signal.SIGKILL, 0):
            with Driver(PROGRAM, str(tmp_path), url, proving, log=tmp_path / "log") as driver:
                seen.sender = driver.process.pid
                assert driver.wait() == code, driver.tail()
    with closing(sqlite3.connect(tmp_path / "endpoint.db")) as database:
        ids = sorted(number for (number,) in database.execute("SELECT id FROM orders"))
    expected = list(range(FILES * ROWS))
    assert sorted(set(ids)) == expected
    history = read_checkpoints(Folder.of(tmp_path / "checkpoints" / "orders"))
    counted = sum(each.shown_again for each in history)
    if proving == "proving":
        assert (ids, counted) == (expected, 0)
        assert len(set(seen.keys)) == len(seen.keys), "the driver asked before it wrote again"
    else:
        assert len(ids) - len(expected) == counted > 0, "each row that came twice is counted"
