"""A real job on real Spark, killed again and again in every phase; then every record is compared.

Each kill waits for a failpoint that holds the driver still, looks at the files to see that the phase is what it is
said to be, and only then kills. All kills strike one job, one after the other, so that each recovery finds what the
kills before it left.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.support.driver import Driver, json_rows, numbers

PROGRAM = Path(__file__).with_name("program.py")
WORDS = [f"w{index}" for index in range(12)]


@dataclass(frozen=True)
class QueryFiles:
    """One query's files, as an observer sees them while the driver holds."""

    folder: Path

    def newest(self, name: str) -> int:
        return max(numbers(self.folder / name), default=-1)


Seen = Callable[[QueryFiles], bool]


def _before_prepared(files: QueryFiles) -> bool:
    return files.newest("spark/offsets") > files.newest("ledger/prepared")


def _prepared_only(files: QueryFiles) -> bool:
    return files.newest("ledger/prepared") > files.newest("spark/commits")


def _committed_by_spark(files: QueryFiles) -> bool:
    return files.newest("spark/commits") > files.newest("ledger/decided")


def _decided_only(files: QueryFiles) -> bool:
    return files.newest("ledger/decided") > files.newest("ledger/done")


def _anything(files: QueryFiles) -> bool:
    return files.newest("spark/offsets") >= 0


@dataclass(frozen=True)
class Kill:
    phase: str
    point: str
    seen: Seen
    with_its_jvm: bool = False


KILLS = [
    Kill("A", "compute.before", _before_prepared),
    Kill("A", "task.write", _before_prepared, with_its_jvm=True),
    Kill("B", "task.prepared", _before_prepared, with_its_jvm=True),
    Kill("B", "prepared.before", _before_prepared, with_its_jvm=True),
    Kill("C", "prepared.after", _prepared_only, with_its_jvm=True),
    Kill("C", "prepared.after", _prepared_only),
    Kill("D", "commits.seen.after", _committed_by_spark),
    Kill("D", "decision.before", _committed_by_spark, with_its_jvm=True),
    Kill("E", "commit.before", _decided_only),
    Kill("R", "recover.position.after", _decided_only, with_its_jvm=True),
    Kill("E", "commit.after", _decided_only, with_its_jvm=True),
    Kill("R", "commit.before", _decided_only),
    Kill("E", "finished.before", _anything, with_its_jvm=True),
]
FILES = 2 * len(KILLS) + 8


@pytest.mark.timeout(600)
def test_kills_in_every_phase_lose_and_repeat_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = _write_input(tmp_path / "in")
    with ExitStack() as drivers:
        report = [_strike(tmp_path, kill, tmp_path / f"hold-{index}", drivers) for index, kill in enumerate(KILLS)]
        last = drivers.enter_context(Driver(PROGRAM, str(tmp_path), log=tmp_path / "log"))
        assert last.wait() == 0, last.tail()
    compared = _compare(tmp_path, words)
    with capsys.disabled():
        print("\n" + "\n".join(report) + f"\nrecords compared: {compared}")


def _strike(folder: Path, kill: Kill, hold: Path, drivers: ExitStack) -> str:
    """Start the driver, let it hold at the failpoint two epochs on, look, kill; its JVM may live on for a while."""
    queries = folder / "checkpoints" / "kills" / "queries"
    finished = [max(numbers(query / "g1/ledger/done"), default=-1) for query in sorted(queries.glob("*"))]
    place = kill.point if kill.phase == "R" else f"{kill.point}@{max(finished, default=-1) + 2}"
    driver = Driver(PROGRAM, str(folder), log=folder / "log", failpoints=f"{place}=hold:{hold}")
    drivers.enter_context(driver)
    reached = driver.wait_for_hold(hold)
    seen = [query.name for query in sorted(queries.glob("*")) if kill.seen(QueryFiles(query / "g1"))]
    assert seen, f"{kill} held, but the files of no query show this phase"
    if kill.with_its_jvm:
        driver.kill_all()
    else:
        driver.kill(int(reached.split()[1]))
    killed = "all" if kill.with_its_jvm else "Python"
    return f"phase {kill.phase}: held at {place}, seen in {', '.join(seen)}, {killed} killed"


def _write_input(folder: Path) -> Counter[str]:
    folder.mkdir()
    chooser = random.Random(7)
    words: Counter[str] = Counter()
    for index in range(FILES):
        lines = [[chooser.choice(WORDS) for _ in range(4)] for _ in range(5)]
        words.update(word for line in lines for word in line)
        (folder / f"{index:03d}.txt").write_text("".join(" ".join(line) + "\n" for line in lines))
    return words


def _compare(folder: Path, words: Counter[str]) -> int:
    return _compare_sums(folder, words) + _compare_draws(folder, words)


def _compare_sums(folder: Path, words: Counter[str]) -> int:
    """Both sinks hold the same rows, random values included, and each word's counts only grow to the exact count."""
    with sqlite3.connect(folder / "out.db") as database:
        table = [tuple(row) for row in database.execute("SELECT word, count, lucky FROM sums")]
    rows = json_rows(sorted((folder / "sums").glob("*.json")))
    files = [(row["word"], row["count"], row["lucky"]) for row in rows]
    assert Counter(table) == Counter(files), "the two sinks differ"
    assert len(set(table)) == len(table), "a row is there twice"
    counts: dict[object, list[int]] = defaultdict(list)
    for word, count, _ in table:
        counts[word].append(count)
    for word, found in counts.items():
        assert len(set(found)) == len(found), f"{word} has a running count twice: {sorted(found)}"
        assert max(found) == words[str(word)]
    assert set(counts) == set(words)
    return len(table) + len(files)


def _compare_draws(folder: Path, words: Counter[str]) -> int:
    """Every row of a word carries the number that its state drew once, and the counts end exactly."""
    rows = ds.dataset(folder / "draws", format="parquet").to_table().to_pylist()
    drawn: dict[str, set[float]] = defaultdict(set)
    seen: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        drawn[row["word"]].add(row["draw"])
        seen[row["word"]].append(row["seen"])
    for word in words:
        assert len(drawn[word]) == 1, f"{word} was published with {len(drawn[word])} draws: the state is another one's"
        assert len(set(seen[word])) == len(seen[word]), f"{word} has a count twice"
        assert max(seen[word]) == words[word]
    return len(rows)
