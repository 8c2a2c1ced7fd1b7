"""`examples/savepoint.py` does what its head says, step by step, in a terminal: `pytest -m more -s` shows it."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.jobs.terminal import Terminal, opened, shows

EXAMPLE = Path(__file__).parents[2] / "examples" / "savepoint.py"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    shutil.copy(EXAMPLE, tmp_path)
    with opened(tmp_path, "words") as terminal:
        yield terminal


@pytest.mark.more
@pytest.mark.timeout(600)
def test_a_job_goes_on_changed_from_a_savepoint_and_back_from_a_checkpoint(terminal: Terminal):
    folder = terminal.folder
    assert shows(terminal.type("python savepoint.py --write 3"))
    assert shows(terminal.type("tidegate run -d savepoint.py"), r"^job words: process \d+")
    wait_for(folder, {"tide": 3, "Tide": 3, "gate": 3, "sea": 6, "sand": 3, "and": 9})
    assert shows(terminal.type("tidegate stop words -p savepoints --id upgrade"), "stop-with-savepoint words: done")
    assert shows(terminal.type("tidegate savepoint ls savepoints"), "upgrade", "words")
    (saved,) = (folder / "savepoints").iterdir()
    path = saved.relative_to(folder)
    assert shows(terminal.type(f"tidegate savepoint inspect {path}"), "backend: hashmap", "partitions: 2")

    assert shows(terminal.type("python savepoint.py --write 3"))
    check = f"tidegate savepoint check savepoint.py -s {path} -- --second"
    assert shows(terminal.type(check), "^migrate", "from hashmap to rocksdb", "4 partitions instead of 2")
    run = f"tidegate run -d -s {path} savepoint.py --second"
    assert shows(terminal.type(run), r"^job words: process \d+")
    after = {"tide": 9, "Tide": 3, "gate": 6, "sea": 12, "sand": 6, "and": 18}
    wait_for(folder, after)
    assert shows(terminal.type("tidegate stop words"), "stop words: done")
    assert shows(terminal.type("tidegate info words"), "^retained")

    checkpoints = sorted((folder / ".tidegate/words/checkpoints").iterdir(), key=lambda each: int(each.name))
    back = f"tidegate run -d -s {checkpoints[-2].relative_to(folder)}"
    assert shows(terminal.type(f"{back} savepoint.py --second"), "TG-SINK-AHEAD", code=4)
    assert shows(terminal.type(f"{back} --rewind savepoint.py --second"), r"^job words: process \d+")
    assert shows(terminal.type("tidegate checkpoint words"), "done")
    wait_for(folder, after)
    assert shows(terminal.type("tidegate stop words"), "stop words: done")
    assert counts(folder) == after
    assert "Traceback" not in terminal.screen


def wait_for(folder: Path, wanted: dict[str, int]) -> None:
    end = time.monotonic() + 120
    while counts(folder) != wanted:
        assert time.monotonic() < end, counts(folder)
        time.sleep(0.1)


def counts(folder: Path) -> dict[str, int]:
    if not (folder / "words.db").exists():
        return {}
    with closing(sqlite3.connect(folder / "words.db", timeout=30)) as database:
        known = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'counts'").fetchone()
        return dict(database.execute("SELECT word, count FROM counts")) if known else {}
