"""A second name for a file where the disk can; a file that is not there is never taken for a disk that cannot."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tidegate.disk import linking
from tidegate.savepoints.saved_tables import link_readable

STATE = "state/0/0/1.delta"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    state = tmp_path / "spark" / STATE
    state.parent.mkdir(parents=True)
    state.write_text("state")
    return tmp_path / "spark"


def failing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(linking.os, "link", fail)


def test_a_readable_copy_has_the_very_files_of_state(checkpoint: Path, tmp_path: Path):
    link_readable(checkpoint, tmp_path / "copy")
    assert (tmp_path / "copy" / STATE).samefile(checkpoint / STATE)
    assert not (tmp_path / "copy" / STATE).is_symlink()


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP])
def test_on_another_disk_it_leads_to_them(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    failing(monkeypatch, number)
    link_readable(checkpoint, tmp_path / "copy")
    assert (tmp_path / "copy" / STATE).is_symlink()
    assert (tmp_path / "copy" / STATE).read_text() == "state"


def test_a_file_that_vanishes_meanwhile_is_an_error_and_not_a_link_to_nothing(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    failing(monkeypatch, errno.ENOENT)
    with pytest.raises(FileNotFoundError):
        link_readable(checkpoint, tmp_path / "copy")
