"""Which files of hashmap state a recovery removes."""

from __future__ import annotations

from pathlib import Path

from tidegate.checkpoints.undecided_state import clear_undecided_state
from tidegate.storages.schemes import Folder


def test_state_of_epochs_that_are_in_no_commit_log_goes_and_all_other_state_stays(tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    for name in ("3", "4", ".4.crc", "5.aside"):
        (tmp_path / "commits" / name).touch()
    stays = ["5.delta", ".5.delta.crc", "4.snapshot", "10.other", "_metadata"]
    goes = ["6.delta", "6.snapshot", ".6.snapshot.crc", "10.delta", "6.delta.crc"]
    folders = [tmp_path / "state/0/0", tmp_path / "state/1/3/left-keyToNumValues"]
    for folder in folders:
        folder.mkdir(parents=True)
        for name in (*stays, *goes):
            (folder / name).touch()
    clear_undecided_state(Folder.of(tmp_path))
    for folder in folders:
        assert sorted(path.name for path in folder.iterdir()) == sorted(stays)


def test_a_checkpoint_without_state_is_left_alone(tmp_path: Path) -> None:
    clear_undecided_state(Folder.of(tmp_path))
    assert list(tmp_path.iterdir()) == []
