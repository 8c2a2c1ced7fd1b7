"""State in hashmap on HDFS: its files have no names of their own, so what was written of them is compared."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.crash.test_hashmap import LINES, write
from tests.crash.test_python_state import compare
from tests.support.driver import Driver
from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server
from tests.support.today import turn
from tidegate import operate
from tidegate.checkpoints.state_proof import needed_at
from tidegate.core.errors import TidegateError
from tidegate.core.ledger import prepared_name
from tidegate.core.records import Prepared, decode
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("draws_program.py")


@turn(1, of=3)
@pytest.mark.timeout(400)
def test_a_job_with_hashmap_on_hdfs_that_is_killed_goes_on_exactly_and_refuses_a_file_that_was_written_over(
    hdfs: HdfsServer, tmp_path: Path
) -> None:
    checkpoints, hold = f"{hdfs.uri}/{tmp_path.name}/checkpoints", tmp_path / "hold"
    generation = Folder.of(checkpoints) / "draws/queries/draws/g1"
    write(tmp_path, *LINES[:3])
    with Driver(
        PROGRAM, str(tmp_path), checkpoints, log=tmp_path / "log", failpoints=f"prepared.after@1=hold:{hold}"
    ) as driver:
        driver.wait_for_hold(hold)
        driver.kill()
    write(tmp_path, *LINES)
    assert run(tmp_path, checkpoints)[0] == 0
    compare(tmp_path / "draws", Counter(word for line in LINES for word in line.split()))
    named = [each.name for epoch in range(4) for each in prepared(generation, epoch).state_files]
    assert set(named) >= set(needed_at(4, named))

    spark = open_storage(generation / "spark")
    whole = spark.read("state/0/1/4.delta")
    spark.replace("state/0/1/4.delta", b"of a late writer")
    code, log = run(tmp_path, checkpoints)
    assert code == 1
    assert "TG-STATE-OVERWRITTEN" in log
    assert f"{generation}/spark/state/0/1/4.delta" in log
    assert "draws/checkpoints/" in log
    with pytest.raises(TidegateError) as raised:
        operate.open(checkpoints, "draws").stop_with_savepoint(f"{hdfs.uri}/{tmp_path.name}/savepoints").wait()
    assert raised.value.code == "TG-STATE-OVERWRITTEN"
    assert whole is not None
    spark.replace("state/0/1/4.delta", whole)
    assert run(tmp_path, checkpoints)[0] == 0


@turn(2, of=3)
@pytest.mark.timeout(200)
def test_hashmap_on_s3_is_refused_by_name(s3: S3Server, tmp_path: Path) -> None:
    write(tmp_path, *LINES)
    code, log = run(tmp_path, str(s3.folder()))
    assert code == 1
    assert "TG-SETTINGS-CLASH" in log
    assert "state.backend" in log


def run(folder: Path, checkpoints: str, *wish: str) -> tuple[int, str]:
    with Driver(PROGRAM, str(folder), checkpoints, *wish, log=folder / "log") as driver:
        return driver.wait(), driver.tail()


def prepared(generation: Folder, epoch: int) -> Prepared:
    """The newest of an epoch."""
    ledger = open_storage(generation)
    name = max(
        ledger.list("ledger/prepared"), key=lambda name: name.startswith(f"{epoch}.") and int(name.split(".")[1])
    )
    data = ledger.read(prepared_name(epoch, int(name.split(".")[1])))
    assert data is not None
    return decode(Prepared, data, name)
