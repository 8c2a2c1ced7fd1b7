"""The servers of a campaign: the storage of its checkpoints, and a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from tests.campaign.places import CHECKPOINTS, MASTER
from tests.house.repository import ROOT
from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server, set_environment
from tests.support.standalone import StandaloneCluster
from tests.support.variables import variables
from tidegate.storages.schemes import Scheme


@contextmanager
def servers(scheme: Scheme, folder: Path, *, cluster: bool) -> Generator[None]:
    """Servers with their data below `folder`. The environment of this process, and so of the drivers, leads to them."""
    with STORAGES[scheme](folder), _standalone(folder) if cluster else nullcontext():
        yield


@contextmanager
def _standalone(folder: Path) -> Generator[None]:
    """Two workers, a core each. Executors have the environment of the workers."""
    cluster = StandaloneCluster(folder / "cluster")
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with variables({"PYTHONPATH": paths}):
        try:
            cluster.start()
            with variables({**cluster.environment, MASTER: cluster.url}):
                yield
        finally:
            cluster.stop()


@contextmanager
def _disk(_: Path) -> Generator[None]:
    with variables({}, unset=[CHECKPOINTS]):
        yield


@contextmanager
def _hdfs(folder: Path) -> Generator[None]:
    server = HdfsServer(folder / "hdfs")
    try:
        server.start()
        with variables({CHECKPOINTS: f"{server.uri}/campaign/checkpoints"}):
            yield
    finally:
        server.stop()


@contextmanager
def _s3(folder: Path) -> Generator[None]:
    (folder / "s3").mkdir()
    server = S3Server(folder / "s3")
    try:
        server.start()
        with set_environment({**server.environment, CHECKPOINTS: str(server.folder() / "checkpoints")}):
            yield
    finally:
        server.stop()


STORAGES: Mapping[Scheme, Callable[[Path], AbstractContextManager[None]]] = {
    Scheme.FILE: _disk,
    Scheme.HDFS: _hdfs,
    Scheme.S3: _s3,
}
"""Those that a campaign can use."""
