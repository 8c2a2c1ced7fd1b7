"""The storage of a campaign's checkpoints: the disk, or a server of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.campaign.places import CHECKPOINTS
from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server, set_environment
from tidegate.storages.schemes import Scheme


@contextmanager
def storage_of(scheme: Scheme, folder: Path) -> Generator[None]:
    """A server with its data below `folder`. The environment of this process, and so of the drivers, leads to it."""
    with STORAGES[scheme](folder):
        yield


@contextmanager
def _disk(_: Path) -> Generator[None]:
    before = os.environ.pop(CHECKPOINTS, None)
    yield
    if before is not None:
        os.environ[CHECKPOINTS] = before


@contextmanager
def _hdfs(folder: Path) -> Generator[None]:
    server = HdfsServer(folder / "hdfs")
    try:
        server.start()
        with set_environment({CHECKPOINTS: f"{server.uri}/checkpoints"}):
            yield
    finally:
        server.stop()


@contextmanager
def _s3(folder: Path) -> Generator[None]:
    (folder / "s3").mkdir()
    server = S3Server(folder / "s3")
    try:
        server.start()
        with set_environment({**server.environment, CHECKPOINTS: str(server.folder())}):
            yield
    finally:
        server.stop()


STORAGES: Mapping[Scheme, Callable[[Path], AbstractContextManager[None]]] = {
    Scheme.FILE: _disk,
    Scheme.HDFS: _hdfs,
    Scheme.S3: _s3,
}
"""Those that a campaign can use."""
