"""The Iceberg sink under the contract that tidegate ships."""

from __future__ import annotations

import pytest

from tests.support.iceberg import opened, properties_in, rows_of, sink_in
from tests.support.s3 import S3Server
from tidegate.sinks.iceberg.sink import IcebergSink
from tidegate.testing.contract import Row, SinkContract


class OnATable(SinkContract):
    """The library keeps threads, which do not live behind a fork."""

    forks_with_client = False
    kills_at_most = 3

    def make_sink(self) -> IcebergSink:
        return sink_in(self.folder)

    def read_target(self) -> list[Row]:
        return [{"id": row["id"], "word": row["word"]} for row in rows_of(opened(self.folder))]


class TestIceberg(OnATable):
    pass


@pytest.mark.more
class TestIcebergKilledAnywhere(OnATable):
    kills_at_most = 100


@pytest.mark.more
class TestIcebergInPartitions(OnATable):
    def make_sink(self) -> IcebergSink:
        return sink_in(self.folder, partition_by=["word", "bucket(4, id)"], target_file_bytes=1)


@pytest.mark.more
class TestIcebergOnS3(OnATable):
    @pytest.fixture(autouse=True)
    def on_the_server(self, s3: S3Server) -> None:
        self.root = s3.folder()

    def make_sink(self) -> IcebergSink:
        return sink_in(self.folder, catalog_properties=properties_in(self.folder, self.root))

    def read_target(self) -> list[Row]:
        return [{"id": row["id"], "word": row["word"]} for row in rows_of(opened(self.folder, self.root))]
