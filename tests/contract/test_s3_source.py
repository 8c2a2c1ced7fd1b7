"""The file source in a bucket of S3, under the contract of sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from pyspark.sql import SparkSession

from tests.support.file_reading import FilesReading
from tests.support.remote_source import RemoteSourceContract
from tests.support.s3 import S3Server
from tidegate import FileSink, FileSource
from tidegate.core.errors import TidegateError
from tidegate.core.records import Outcome
from tidegate.machine.s3a import s3a_jars
from tidegate.sources.files.globs import FileSelection
from tidegate.sources.files.remote_listing import RemoteFiles
from tidegate.spark.connectors import reading_options
from tidegate.storages.opening import open_storage
from tidegate.storages.s3.bucket import S3Bucket
from tidegate.storages.s3.connection import connection
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import IDENTITY, attempt_of, rows_from

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client


class TestFilesFromS3(RemoteSourceContract):
    @pytest.fixture(autouse=True)
    def _server(self, s3: S3Server) -> None:
        self._root = s3.folder()

    @property
    def root(self) -> Folder:
        return self._root

    def test_a_large_prefix_is_listed_page_by_page(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A page has a thousand objects; the next one is asked for when the first one has been taken."""
        for number in range(3):
            open_storage(self.source_folder).replace(f"{number}.json", b"{}\n")
        pages: list[str] = []
        of_one = S3Bucket._page

        def page(self: S3Bucket, prefix: str, delimiter: str, token: str) -> object:
            pages.append(token)
            asked = of_one(self, prefix, delimiter, token)
            return lambda client: asked(cast("S3Client", _OnePage(client)))

        monkeypatch.setattr(S3Bucket, "_page", page)
        listed = iter(self.files(FileSelection()).list())
        next(listed)
        assert len(pages) == 1
        assert len(list(listed)) == 2
        assert len(pages) == 3


@pytest.mark.usefixtures("moto")
@pytest.mark.parametrize("name", ["in//a.json", "in/day=1//b.json"])
@pytest.mark.parametrize("recursive", [False, True])
def test_a_key_with_two_slashes_in_a_row_is_refused_by_name(tmp_path: Path, name: str, recursive: bool) -> None:
    """Hadoop takes `in//a.json` for `in/a.json`. The server of the other tests folds such keys itself."""
    folder = Folder.of(f"s3://moto-tests/{tmp_path.name}/in")
    connection().client.put_object(Bucket="moto-tests", Key=f"{tmp_path.name}/{name}", Body=b"{}\n")
    files = RemoteFiles(folder, folder.for_spark(), FileSelection(recursive=recursive))
    reader = FilesReading(lambda: files, str, tmp_path / "log").reader
    with pytest.raises(TidegateError, match="TG-FILE-NAME") as raised:
        reader.latest(None)
    assert name.removeprefix("in/") in raised.value.found
    assert "pattern=" in (raised.value.next_step or "")


class _OnePage:
    """A client whose lists have one object on each page."""

    def __init__(self, client: object) -> None:
        self._client = client

    def list_objects_v2(self, **options: object) -> object:
        return self._client.list_objects_v2(**options, MaxKeys=1)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.more
def test_spark_reads_what_is_visible_in_a_bucket_and_nothing_that_is_staged(s3: S3Server) -> None:
    """The same for rows that Spark itself lists, and for a file source whose paths tidegate names."""
    folder = s3.folder() / "out"
    sink = FileSink("numbers", str(folder), format="json", partition_by="word")
    sink.place.open(IDENTITY)
    for epoch in range(3):
        transaction = sink.begin(attempt_of(epoch=epoch))
        transaction.write(rows_from(epoch, 2))
        committable = transaction.pre_commit()
        assert committable is not None
        if epoch < 2:
            assert sink.commit([committable])[0].outcome is Outcome.COMMITTED
    jars = ",".join(str(jar) for jar in s3a_jars({}, print))
    builder = SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()
    try:
        options = reading_options(spark, folder)
        listed = spark.read.options(**options).json(folder.for_spark())
        assert sorted(row.id for row in listed.collect()) == [0, 1, 1000, 1001]
        assert {row.word for row in listed.collect()} == {"word 0", "word 1", "word 1000", "word 1001"}
        source = FileSource(str(folder), format="json", schema="id long, word string")
        place = source.place(spark, "source numbers")
        named = spark.read.options(**options).json([place.files().path(seen.name) for seen in place.files().list()])
        assert sorted(row.id for row in named.collect()) == [0, 1, 1000, 1001]
    finally:
        spark.stop()
