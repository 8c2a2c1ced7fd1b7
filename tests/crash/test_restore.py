"""A driver that is killed while it restores: the next start restores anew or goes on, and the rows are exact."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.test_due_window import windows
from tests.support.driver import Driver, numbers
from tidegate.core.failpoints import RESTORE_POINTS
from tidegate.core.records import JobRecord, decode

PROGRAM = Path(__file__).with_name("restore_program.py")


@pytest.mark.more  # what the files are after each of these kills is in tests/unit/test_savepoint_restore.py
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("point", "partitions"),
    [*((point, "2") for point in RESTORE_POINTS), ("restore.rewritten", "3"), ("restore.switched", "3")],
)
def test_killed_at_any_step_of_the_restore_the_rows_of_both_lives_are_exact(
    tmp_path: Path, point: str, partitions: str
) -> None:
    """In other partitions than the savepoint's two the state is written again."""
    write(tmp_path, 0, ("01", "sea"), ("02", "sand"))
    start(tmp_path, "save", "2")
    write(tmp_path, 1, ("03", "sea"), ("16", "wind"))
    given = (str(tmp_path), "restore", partitions)
    with Driver(PROGRAM, *given, log=tmp_path / "log", failpoints=f"{point}=crash") as killed:
        assert killed.wait() == -9, killed.tail()
    assert table(tmp_path) == {"sea": 1, "sand": 1}
    start(tmp_path, "restore", partitions)
    assert table(tmp_path) == {"sea": 2, "sand": 1, "wind": 1}
    assert list(windows(tmp_path).values()) == [[("00:00:00", 3)]]
    queries = tmp_path / "checkpoints/job/queries"
    assert {str(path.relative_to(queries)) for path in queries.glob("*/*")} == {"counts/g2", "windows/g2"}
    record = decode(JobRecord, (tmp_path / "checkpoints/job/job.json").read_bytes(), "job.json")
    assert (record.generation, numbers(tmp_path / "checkpoints/job/restores")) == (2, [2])


def start(folder: Path, doing: str, partitions: str) -> None:
    with Driver(PROGRAM, str(folder), doing, partitions, log=folder / "log") as driver:
        assert driver.wait() == 0, driver.tail()


def write(folder: Path, number: int, *events: tuple[str, str]) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = [json.dumps({"at": f"2024-01-01T00:00:{second}Z", "word": word}) for second, word in events]
    (folder / "in" / f"{number}.json").write_text("\n".join(lines) + "\n")


def table(folder: Path) -> dict[str, int]:
    with closing(sqlite3.connect(folder / "out.db")) as database:
        return dict(database.execute("SELECT * FROM words"))
