"""A driver that upserts is killed where it hurts; every key is compared, also by a reader meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.driver import Driver
from tests.support.killed_epochs import killed_at, run_to_the_end, shown_passwords, write_numbers
from tests.support.mariadb import PASSWORD
from tests.support.mariadb import USER as MYSQL_USER
from tests.support.polled_totals import KEYS, Total, each_key_went_back_once, nothing_else_was_seen, polled, total_of
from tests.support.postgres import DATABASE, USER
from tests.support.today import sampled
from tests.support.variables import variables
from tests.upsert.places import WORDS, OnMySQL, OnPostgres, OnSQLite, Place, place_on
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("job_program.py")
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

    def start(failpoints: str) -> Driver:
        return started(tmp_path, place, failpoints=failpoints)

    with variables({"THE_PASSWORD": PASSWORD}), polled(lambda: totals_there(place)) as seen:
        killed_at(tmp_path, point, start)
        run_to_the_end(start)
    each_key_has_its_total(tmp_path, place)
    nothing_else_was_seen(seen)
    assert shown_passwords(tmp_path, PASSWORD) == []


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
        with polled(lambda: totals_there(place)) as seen:
            with started(tmp_path, place, back_to=oldest, failpoints=f"task.prepared@2=hold:{hold}") as driver:
                driver.wait_for_hold(hold)
                driver.kill_all()
            with started(tmp_path, place, back_to=oldest) as driver:
                assert driver.wait() == 0, driver.tail()
    each_key_has_its_total(tmp_path, place)
    each_key_went_back_once(seen)


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


# --- what a reader sees ----------------------------------------------------------------------------------------


def totals_of(place: Place) -> dict[int, Total]:
    quotes = "`" if place.word == "mysql" else '"'
    rows = place.execute(f"SELECT {quotes}key{quotes}, newest, total FROM @totals@")
    return {key: (newest, int(total)) for key, newest, total in rows}


def totals_there(place: Place) -> Mapping[int, Total]:
    """None while there is no table yet, or SQLite is locked."""
    with suppress(Exception):
        return totals_of(place)
    return {}


# --- what stands at the end ------------------------------------------------------------------------------------


def each_key_has_its_total(folder: Path, place: Place) -> None:
    wanted = {key: total_of(key) for key in range(KEYS)}
    with closing(sqlite3.connect(folder / "out.db")) as database:
        table = database.execute("SELECT key, newest, total FROM totals").fetchall()
    assert {key: (newest, total) for key, newest, total in table} == wanted
    assert totals_of(place) == {key: total for key, total in wanted.items() if total[0] % 7}
    assert place.execute("SELECT count(*) FROM @_tidegate_stamps_totals@ WHERE _tidegate_gone = 1") == [(0,)]
    assert place.execute("SELECT count(*) FROM @_tidegate_marks@") == [(0,)]
    assert place.stages() == []
