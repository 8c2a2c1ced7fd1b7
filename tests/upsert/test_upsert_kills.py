"""A driver that upserts is killed where it hurts; every key is compared, also by a reader meanwhile."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import pairwise, product
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.driver import Driver
from tests.support.mariadb import PASSWORD
from tests.support.mariadb import USER as MYSQL_USER
from tests.support.postgres import DATABASE, USER
from tests.support.today import sampled
from tests.support.variables import variables
from tests.upsert.places import WORDS, OnMySQL, OnPostgres, OnSQLite, Place, place_on
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("job_program.py")
FILES, KEYS = 4, 60
Total = tuple[int, int]
"""The newest number of a key, and the sum of its numbers."""

POINTS = {
    "half written": "task.write@1",
    "in a task": "task.prepared@1",
    "not prepared": "prepared.before@1",
    "prepared": "prepared.after@1",
    "not decided": "decision.before@1",
    "decided": "decision.after@1",
    "not committed": "commit.before@2",
    "committed": "commit.after@2",
    "not done": "done.before@2",
    "not cleaned": "gc.clean.before@2",
    "no run has begun": "recover.begun.before",
    "a run has begun": "recover.begun.after",
}
"""An epoch passes these failpoints, in this order; the last two lie before the first one."""

KILLED_AT = sampled(
    [pytest.param(word, point, id=f"{word}, {name}") for (name, point), word in product(POINTS.items(), WORDS)],
    every=2,
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("word", "point"), KILLED_AT)
def test_the_content_ends_exact_wherever_the_driver_is_killed(
    tmp_path: Path, request: pytest.FixtureRequest, word: str, point: str
) -> None:
    place = place_on(word, request, tmp_path)
    write_numbers(tmp_path)
    hold = tmp_path / "hold"
    with variables({"THE_PASSWORD": PASSWORD}), polled(place) as seen:
        with started(tmp_path, place, failpoints=f"{point}=hold:{hold}") as driver:
            driver.wait_for_hold(hold)
            driver.kill_all()
        with started(tmp_path, place) as driver:
            assert driver.wait() == 0, driver.tail()
    each_key_has_its_total(tmp_path, place)
    assert seen, "the reader has seen rows"
    nothing_else_was_seen(seen)
    assert shown_passwords(tmp_path) == []


@pytest.mark.more
@pytest.mark.timeout(600)
@pytest.mark.parametrize("word", WORDS)
def test_after_a_restore_the_content_jumps_back_and_plays_again(
    tmp_path: Path, request: pytest.FixtureRequest, word: str
) -> None:
    """The driver is killed in the replay as well."""
    place, hold = place_on(word, request, tmp_path), tmp_path / "hold"
    write_numbers(tmp_path)
    with variables({"THE_PASSWORD": PASSWORD}):
        with started(tmp_path, place) as driver:
            assert driver.wait() == 0, driver.tail()
        each_key_has_its_total(tmp_path, place)
        oldest = str(retained_numbers(Folder.of(tmp_path / "checkpoints" / "totals"))[0])
        with polled(place) as seen:
            with started(tmp_path, place, back_to=oldest, failpoints=f"task.prepared@2=hold:{hold}") as driver:
                driver.wait_for_hold(hold)
                driver.kill_all()
            with started(tmp_path, place, back_to=oldest) as driver:
                assert driver.wait() == 0, driver.tail()
    each_key_has_its_total(tmp_path, place)
    for key, totals in seen.items():
        assert set(totals) <= {total_of(key, files) for files in range(1, FILES + 1)}, f"key {key}"
        assert sum(later < earlier for earlier, later in pairwise(totals)) <= 1, f"key {key} went back once: {totals}"
    assert any(totals != sorted(totals) for totals in seen.values()), "the reader has seen the jump"


def started(folder: Path, place: Place, *, failpoints: str = "", back_to: str = "") -> Driver:
    arguments = (str(folder), url_of(place), place.schema if isinstance(place, OnPostgres) else "", back_to)
    return Driver(PROGRAM, *arguments, log=folder / "log", failpoints=failpoints)


def url_of(place: Place) -> str:
    """Without the password."""
    if isinstance(place, OnSQLite):
        return str(place.path)
    if isinstance(place, OnPostgres):
        return f"postgresql://{USER}@127.0.0.1:{place.server.port}/{DATABASE}"
    assert isinstance(place, OnMySQL)
    return f"mysql://{MYSQL_USER}@127.0.0.1:{place.server.port}/{quote(place.database)}"


def write_numbers(folder: Path) -> None:
    (folder / "in").mkdir()
    for file in range(FILES):
        lines = [json.dumps({"number": number}) for number in range(file * KEYS, (file + 1) * KEYS)]
        (folder / "in" / f"{file}.json").write_text("\n".join(lines) + "\n")


# --- what a reader sees ----------------------------------------------------------------------------------------


@contextmanager
def polled(place: Place) -> Iterator[dict[int, list[Total]]]:
    """Reads all rows again and again. By key: each total that was seen, in the order of the looks."""
    seen: dict[int, list[Total]] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            with suppress(Exception):  # there is no table yet, or SQLite is locked
                for key, total in totals_of(place).items():
                    totals = seen.setdefault(key, [])
                    if totals[-1:] != [total]:
                        totals.append(total)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        yield seen
    finally:
        over.set()
        reader.join(60)


def nothing_else_was_seen(seen: Mapping[int, list[Total]]) -> None:
    """Each look at a key has shown its total after some file, and never an earlier one than the look before."""
    for key, totals in seen.items():
        assert set(totals) <= {total_of(key, files) for files in range(1, FILES + 1)}, f"key {key}"
        assert totals == sorted(totals), f"key {key} went back"


def totals_of(place: Place) -> dict[int, Total]:
    quotes = "`" if place.word == "mysql" else '"'
    rows = place.execute(f"SELECT {quotes}key{quotes}, newest, total FROM @totals@")
    return {key: (newest, int(total)) for key, newest, total in rows}


def total_of(key: int, files: int) -> Total:
    numbers = [key + KEYS * file for file in range(files)]
    return numbers[-1], sum(numbers)


# --- what stands at the end ------------------------------------------------------------------------------------


def each_key_has_its_total(folder: Path, place: Place) -> None:
    wanted = {key: total_of(key, FILES) for key in range(KEYS)}
    with closing(sqlite3.connect(folder / "out.db")) as database:
        table = database.execute("SELECT key, newest, total FROM totals").fetchall()
    assert {key: (newest, total) for key, newest, total in table} == wanted
    assert totals_of(place) == {key: total for key, total in wanted.items() if total[0] % 7}
    assert place.execute("SELECT count(*) FROM @_tidegate_stamps_totals@ WHERE _tidegate_gone = 1") == [(0,)]
    assert place.execute("SELECT count(*) FROM @_tidegate_marks@") == [(0,)]
    assert place.stages() == []


def shown_passwords(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if PASSWORD.encode() in path.read_bytes()]
