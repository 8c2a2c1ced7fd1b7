"""`examples/savepoint.py` in a terminal, as docs/tutorial.md tells it: `pytest -s` shows what stands on the screen."""

from __future__ import annotations

import re
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.test_socket import in_order_within, lines_in_the_log
from tests.jobs.terminal import Terminal, opened, shows
from tests.support.cards import states_on_the_page
from tests.support.line_server import LineServer
from tests.support.today import turn
from tidegate.storages.local.locks import read_holder

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "savepoint.py"
TUTORIAL = ROOT / "docs" / "tutorial.md"


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TIDEGATE_UI_PORT", "0")
    shutil.copy(EXAMPLE, tmp_path)
    with opened(tmp_path, "words") as terminal:
        yield terminal


@turn(0, of=2)
@pytest.mark.timeout(900)
def test_a_socket_word_count_is_killed_canceled_with_a_savepoint_and_restored_twice(terminal: Terminal):
    folder, job = terminal.folder, terminal.folder / ".tidegate" / "words"
    with LineServer(lines_per_second=50) as server:
        program = f"savepoint.py --port {server.port}"
        started = terminal.type(f"tidegate run -d --ui -D state.backend=hashmap {program}")
        assert shows(started, r"^job words: process \d+", r"^page: http://127\.0\.0\.1:")
        wait_for_more(folder)
        holder = read_holder(job)
        assert holder is not None
        assert shows(terminal.type(f"kill -9 {holder.process}"))
        wait_for_more(folder)
        wait_for(lambda: states_on_the_page(started[1]) == {"words": "RUNNING"}, "the next driver on the page")
        answer = terminal.type("tidegate cancel words -s savepoints")
        assert shows(answer, "cancel-with-savepoint words: done")
        (saved,) = (path.name for path in (folder / "savepoints").glob("savepoint-*"))
        shown = terminal.type(f"tidegate savepoint inspect savepoints/{saved}")
        assert shows(shown, "backend: hashmap", r"source lines: line \d+")

        run = f"tidegate run -d -s savepoints/{saved} -D state.backend=rocksdb {program}"
        assert shows(terminal.type(run), r"^job words: process \d+")
        wait_for_more(folder)
        assert shows(terminal.type("tidegate cancel words"), "cancel words: done")
        assert shows(terminal.type("tidegate info words"), "^retained", "CANCELED")

        newest = max(int(path.name) for path in (job / "checkpoints").iterdir())
        run = f"tidegate run -d -s .tidegate/words/checkpoints/{newest} -D state.backend=rocksdb {program}"
        assert shows(terminal.type(run), r"^job words: process \d+")
        wait_for_more(folder)
        server.fall_silent()
        log = job / "ingest" / "lines"
        wait_for(lambda: counts(folder) == words_in(log), "every word that arrived")
        assert shows(terminal.type("tidegate stop words"), "stop words: done")
    assert counts(folder) == words_in(log), "and nothing behind it"
    assert in_order_within(lines_in_the_log(log), server.sent)
    assert typed(terminal) == told()
    assert "Traceback" not in terminal.screen


def words_in(log: Path) -> Counter[str]:
    return Counter(" ".join(lines_in_the_log(log)).split())


def typed(terminal: Terminal) -> list[str]:
    """The lines of the terminal, with the names that the tutorial has for what is different each time."""
    lines = re.findall(r"^\$ (.*)$", terminal.screen, re.MULTILINE)
    for pattern, name in (
        (r" --port \d+", ""),
        (r"kill -9 \d+", "kill -9 PROCESS"),
        (r"savepoint-[0-9a-f]{8}-[\w-]+", "savepoint-XXXX-YYYY"),
        (r"checkpoints/\d+", "checkpoints/N"),
    ):
        lines = [re.sub(pattern, name, line) for line in lines]
    return lines


def told() -> list[str]:
    """The commands of the tutorial's second terminal, behind those of the installation."""
    _, *blocks = re.findall(r"^```sh\n(.*?)^```", TUTORIAL.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith(("tidegate", "kill"))]


def wait_for_more(folder: Path) -> None:
    before = counts(folder).total()
    wait_for(lambda: counts(folder).total() > before, "new words")


def wait_for(seen: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 120
    while not seen():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def counts(folder: Path) -> Counter[str]:
    """What a reader of the table sees; nothing while there is none."""
    if not (folder / "words.db").exists():
        return Counter()
    with closing(sqlite3.connect(folder / "words.db", timeout=30)) as database:
        known = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'counts'").fetchone()
        return Counter(dict(database.execute("SELECT word, count FROM counts"))) if known else Counter()
