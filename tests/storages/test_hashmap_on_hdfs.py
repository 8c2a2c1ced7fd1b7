"""State in hashmap on HDFS: its files have no names of their own, so what was written of them is compared."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.test_hashmap import LINES, SNAPSHOTS_AT_ONCE, write
from tests.crash.test_python_state import compare
from tests.support.driver import Driver
from tests.support.hdfs import HdfsServer
from tests.support.today import turn
from tidegate import operate
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.state_proof import Version, named_state, needed_at, version_of
from tidegate.core.errors import TidegateError
from tidegate.core.ledger import prepared_name
from tidegate.core.records import Prepared, decode
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("draws_program.py")


@turn(1, of=8)
@pytest.mark.timeout(400)
def test_a_job_with_hashmap_on_hdfs_that_is_killed_goes_on_exactly(hdfs: HdfsServer, tmp_path: Path) -> None:
    """Killed in an epoch that is prepared, its state written; the next run draws other numbers."""
    checkpoints, hold = f"{hdfs.uri}/{tmp_path.name}/checkpoints", tmp_path / "hold"
    write(tmp_path, *LINES[:3])
    with Driver(
        PROGRAM, str(tmp_path), checkpoints, log=tmp_path / "log", failpoints=f"prepared.after@1=hold:{hold}"
    ) as driver:
        driver.wait_for_hold(hold)
        driver.kill()
    write(tmp_path, *LINES)
    code, log = run(tmp_path, checkpoints)
    assert code == 0, log
    compare(tmp_path / "draws", Counter(word for line in LINES for word in line.split()))
    generation = Folder.of(checkpoints) / "draws/queries/draws/g1"
    named = [each.name for epoch in range(4) for each in prepared(generation, epoch).state_files]
    assert set(named) >= set(needed_at(4, named))
    assert {version_of(name) for name in named} >= {Version(f"state/0/{part}", 4, False) for part in range(2)}


@pytest.mark.more
@pytest.mark.timeout(600)
def test_a_job_whose_snapshots_take_the_place_of_its_deltas_starts_again(
    hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many epochs that Spark removes old deltas, with a snapshot of nearly each version."""
    checkpoints, epochs = f"{hdfs.uri}/{tmp_path.name}/checkpoints", 30
    generation = Folder.of(checkpoints) / "draws/queries/draws/g1"
    lines = [f"sea word-{number}" for number in range(epochs)]
    write(tmp_path, *lines[: epochs - 4])
    with monkeypatch.context() as quick:
        quick.setenv("PYSPARK_SUBMIT_ARGS", SNAPSHOTS_AT_ONCE)
        code, log = run(tmp_path, checkpoints)
        assert code == 0, log
    write(tmp_path, *lines)
    code, log = run(tmp_path, checkpoints)
    assert code == 0, log
    compare(tmp_path / "draws", Counter(word for line in lines for word in line.split()))
    named = named_state(open_storage(generation))
    needed = needed_at(epochs, named)
    assert [name for name in needed if name.endswith(".snapshot")], "there are snapshots, and they are named"
    assert set(needed) <= set(named)
    assert not open_storage(generation / "spark").look("state/0/0/1.delta"), "Spark has removed old deltas"


@pytest.mark.more
@pytest.mark.timeout(600)
def test_state_that_was_written_over_is_refused_by_start_restore_and_savepoint(
    hdfs: HdfsServer, tmp_path: Path
) -> None:
    checkpoints = f"{hdfs.uri}/{tmp_path.name}/checkpoints"
    generation = Folder.of(checkpoints) / "draws/queries/draws/g1"
    write(tmp_path, *LINES)
    code, log = run(tmp_path, checkpoints)
    assert code == 0, log
    open_storage(generation / "spark").replace("state/0/1/4.delta", b"of a late writer")

    code, log = run(tmp_path, checkpoints)
    assert (code, "TG-STATE-OVERWRITTEN" in log) == (1, True), log
    assert f"{generation}/spark/state/0/1/4.delta" in log
    whole = re.search(rf"{re.escape(checkpoints)}/draws/checkpoints/\d+", log)
    assert whole is not None, log
    with pytest.raises(TidegateError) as raised:
        operate.open(checkpoints, "draws").stop_with_savepoint(f"{hdfs.uri}/{tmp_path.name}/savepoints").wait()
    assert raised.value.code == "TG-STATE-OVERWRITTEN"
    code, log = run_elsewhere(tmp_path, checkpoints)
    assert (code, "TG-STATE-OVERWRITTEN" in log) == (1, True), log

    code, log = run(tmp_path, checkpoints, f"rewind={whole[0]}")
    assert code == 0, log
    assert {query.generation for query in operate.open(checkpoints, "draws").info().queries} == {2}
    code, log = run_elsewhere(tmp_path, checkpoints)
    assert code == 0, log


def run(folder: Path, checkpoints: str, *wish: str) -> tuple[int, str]:
    with Driver(PROGRAM, str(folder), checkpoints, *wish, log=folder / "log") as driver:
        return driver.wait(), driver.tail()


def run_elsewhere(folder: Path, checkpoints: str) -> tuple[int, str]:
    """A new job on a local disk, from the newest retained checkpoint of this one."""
    newest = max(retained_numbers(Folder.of(checkpoints) / "draws"))
    return run(
        folder, str(folder / "checkpoints"), f"savepoint={checkpoints}/draws/checkpoints/{newest}", "hashmap", "out"
    )


def prepared(generation: Folder, epoch: int) -> Prepared:
    """The newest of an epoch."""
    ledger = open_storage(generation)
    name = max(
        ledger.list("ledger/prepared"), key=lambda name: name.startswith(f"{epoch}.") and int(name.split(".")[1])
    )
    data = ledger.read(prepared_name(epoch, int(name.split(".")[1])))
    assert data is not None
    return decode(Prepared, data, name)
