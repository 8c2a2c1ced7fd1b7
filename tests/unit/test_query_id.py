"""Spark's own query id is made anew where the file does not have a whole one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tidegate.spark.query_id import mend_query_id
from tidegate.storages.local.storage import LocalStorage


@pytest.mark.parametrize("damage", [b"", b'{"id"', b'{"id":"\xe6"}', b'{"id":""}'])
def test_a_damaged_query_id_is_made_anew(tmp_path: Path, damage: bytes):
    (tmp_path / "metadata").write_bytes(damage)
    mend_query_id(LocalStorage(tmp_path))
    assert msgspec.json.decode((tmp_path / "metadata").read_bytes(), type=dict[str, str])["id"]
