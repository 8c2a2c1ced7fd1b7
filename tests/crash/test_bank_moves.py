"""The bank of four queries ends, and moves to another storage, while orders come in: each order is paid once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.crash.bank import Bank, paid
from tests.crash.bank_checker import unread, withdrawn
from tests.integration.place import wait_until
from tests.jobs.folders import tidegate
from tests.support.remote_files import content
from tests.support.s3 import S3Server
from tests.support.today import turn
from tidegate import Restore
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.savepoints.folder import open_savepoint
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.schemes import Folder


@turn(0, of=2)
@pytest.mark.timeout(400)
def test_a_drain_of_the_bank_under_load_leaves_nothing_in_a_channel(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    with bank.driver({}, "forever") as driver:
        with bank.fed():
            wait_until(lambda: paid(bank.checkpoints_folder), "the first payments")
            wait_until(lambda: sum(unread(bank.job).values()) > 8, "rows in the channels")
            code, said = tidegate("stop", "bank", "--drain", "--dir", str(bank.checkpoints_folder))
            assert code == 0, said
        assert driver.wait() == 0, driver.tail()
    assert set(unread(bank.job).values()) == {0}
    orders = Counter(withdrawn(bank.job))
    assert paid(bank.checkpoints_folder) == orders
    assert orders <= Counter(bank.ordered)
    [money] = bank.money(bank.checkpoints()[-1]).values()
    assert (money.flying, money.excess) == (0, 0)


@turn(1, of=8)
@pytest.mark.timeout(400)
def test_a_savepoint_of_the_bank_under_load_is_restored_on_s3_with_other_partitions_and_another_backend(
    s3: S3Server, tmp_path: Path
) -> None:
    bank = Bank(tmp_path)
    here, saved = {"state_backend": "hashmap", "parallelism": 2}, tmp_path / "saved"
    with bank.driver(here, "forever") as driver:
        with bank.fed():
            wait_until(lambda: paid(bank.checkpoints_folder), "the first payments")
            code, said = tidegate("savepoint", "bank", str(saved), "--dir", str(bank.checkpoints_folder))
            assert code == 0, said
            before = paid(bank.checkpoints_folder)
            wait_until(lambda: paid(bank.checkpoints_folder) != before, "payments behind the savepoint")
        driver.kill()
    [savepoint] = saved.iterdir()
    [through] = [each.done.epoch for each in open_savepoint(savepoint).record.queries if each.done.query == "pay"]
    kept = paid(bank.checkpoints_folder, through)
    bank.order()
    elsewhere = s3.folder()
    there = {"checkpointing_dir": str(elsewhere), "state_backend": "rocksdb", "parallelism": 3}
    with bank.driver(there, "caught-up", Restore(str(savepoint))) as driver:
        assert driver.wait() == 0, driver.tail()
    assert kept
    assert kept + paid(elsewhere) == Counter(bank.ordered)
    job = copied(elsewhere / "bank", tmp_path / "copied")
    newest = retained_numbers(Folder.of(job))[-1]
    assert {path.name for path in job.glob("checkpoints/held/*/pay/state/0/[0-9]*")} == {"0", "1", "2"}
    [money] = bank.money(newest, job=job).values()
    assert (money.flying, money.excess, money.opened) == (0, 0, 8)


def copied(folder: Folder, into: Path) -> Path:
    """All files of a folder on a storage, on this disk."""
    files = open_checkpoint_files(folder)
    for name in [each.name for each in files.list()]:
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_bytes(content(files, name) or b"")
    return into
