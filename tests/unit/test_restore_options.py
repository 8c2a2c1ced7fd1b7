"""What a start goes on from, as its command names it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.restored_job import restore, restoring
from tests.support.saved_job import RECORD, finish, write_job
from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.cli.restore_options import RestoreOptions, restore_from
from tidegate.core.levels import Level
from tidegate.core.records import encode
from tidegate.savepoints.take import take
from tidegate.spark.opens import Opens
from tidegate.spark.restoring import open_restore
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder

TOLD = RestoreOptions(
    claim=False, allow=False, allow_of=None, renamed=None, offsets_only=False, state_only=False, rewind=False
)


def test_a_start_that_its_supervisor_repeats_goes_on_although_a_link_leads_to_a_newer_savepoint_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    job, into = tmp_path / "job", tmp_path / "saved"
    running = write_job(job)
    LocalStorage(job).put_if_absent(JOB_RECORD, encode(RECORD))
    first = take(running, "first", into)
    latest = into / "latest"
    latest.symlink_to(first.folder)
    monkeypatch.chdir(into)
    wish = restore_from("latest", TOLD)
    restore(restoring(job, first))
    finish(job, 4)
    latest.unlink()
    latest.symlink_to(take(running, "second", into).folder)
    with ExitStack() as stack:
        assert open_restore(wish, Folder.of(job), "job", Level.EXACTLY_ONCE, stack, Opens.RESTORE) is None
