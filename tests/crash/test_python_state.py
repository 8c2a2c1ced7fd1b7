"""State that a Python function of the user's keeps: what is published is what that state goes on with."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.support.driver import Driver, numbers
from tests.support.today import turn

PROGRAM = Path(__file__).with_name("python_state_program.py")
LINES = ["sea sand", "sea wind", "sand sea wind", "wind sea"]


@turn(3, of=4)
@pytest.mark.timeout(300)
def test_a_number_drawn_by_a_state_function_is_the_one_that_was_published(tmp_path: Path) -> None:
    """Killed in the first epoch, when the drawn numbers are prepared and Spark has not committed them."""
    (tmp_path / "in").mkdir()
    for index, line in enumerate(LINES):
        (tmp_path / "in" / f"{index}.txt").write_text(line + "\n")
    query, hold = tmp_path / "checkpoints/draws/queries/draws/g1", tmp_path / "hold"
    held = f"prepared.after@0=hold:{hold}"
    with Driver(PROGRAM, str(tmp_path), log=tmp_path / "log", failpoints=held) as driver:
        driver.wait_for_hold(hold)
        assert (numbers(query / "ledger/prepared"), numbers(query / "spark/commits")) == ([0], [])
    with Driver(PROGRAM, str(tmp_path), log=tmp_path / "log") as driver:
        assert driver.wait() == 0, driver.tail()
    compare(tmp_path / "draws", Counter(word for line in LINES for word in line.split()))


def compare(folder: Path, words: Counter[str]) -> None:
    """Every row of a word carries the number that its state drew once, and the counts end exactly."""
    drawn: dict[str, set[float]] = defaultdict(set)
    seen: dict[str, list[int]] = defaultdict(list)
    for row in ds.dataset(folder, format="parquet").to_table().to_pylist():
        drawn[row["word"]].add(row["draw"])
        seen[row["word"]].append(row["seen"])
    for word in words:
        assert len(drawn[word]) == 1, f"{word} was published with {len(drawn[word])} draws: the state is another one's"
        assert len(set(seen[word])) == len(seen[word]), f"{word} has a count twice"
        assert max(seen[word]) == words[word]
    assert set(drawn) == set(words)
