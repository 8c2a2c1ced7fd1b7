"""The Delta sink under the contract that tidegate ships."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.support.delta import rows_of
from tests.support.s3 import S3Server
from tidegate.sinks.delta.sink import DeltaSink
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import Row, SinkContract


class OnATable(SinkContract):
    """The library of the client refuses to run behind a fork."""

    forks_with_client = False
    kills_at_most = 12

    @property
    def place(self) -> Path | Folder:
        return self.folder / "the table"

    def read_target(self) -> list[Row]:
        return [{"id": row["id"], "word": row["word"]} for row in rows_of(self.place)]


class TestDelta(OnATable):
    def make_sink(self) -> DeltaSink:
        return DeltaSink("numbers", str(self.place))


@pytest.mark.more
class TestDeltaInPartitions(OnATable):
    def make_sink(self) -> DeltaSink:
        return DeltaSink("numbers", str(self.place), partition_by="word", target_file_bytes=1)


@pytest.mark.more
class TestDeltaByKey(OnATable):
    """The suite writes each number once."""

    def make_sink(self) -> DeltaSink:
        return DeltaSink("numbers", str(self.place), key="id", partition_by="word", compact_at=3)


class OnS3(OnATable):
    @pytest.fixture(autouse=True)
    def on_the_server(self, s3: S3Server) -> None:
        self.root = s3.folder()

    @property
    def place(self) -> Folder:
        return self.root / hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]


@pytest.mark.more
class TestDeltaOnS3(OnS3):
    def make_sink(self) -> DeltaSink:
        return DeltaSink("numbers", str(self.place))


@pytest.mark.more
class TestDeltaByKeyOnS3(OnS3):
    def make_sink(self) -> DeltaSink:
        return DeltaSink("numbers", str(self.place), key="id", compact_at=3)
