"""The file source in a bucket of S3, under the contract of sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from tests.support.remote_source import RemoteSourceContract
from tests.support.s3 import S3Server
from tidegate.sources.files.globs import FileSelection
from tidegate.storages.opening import open_storage
from tidegate.storages.s3.bucket import S3Bucket
from tidegate.storages.schemes import Folder

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


class _OnePage:
    """A client whose lists have one object on each page."""

    def __init__(self, client: object) -> None:
        self._client = client

    def list_objects_v2(self, **options: object) -> object:
        return self._client.list_objects_v2(**options, MaxKeys=1)  # pyright: ignore[reportAttributeAccessIssue]
