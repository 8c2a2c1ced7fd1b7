"""Other servers of S3 for tests, with other answers: moto in this process, and a process of versitygw.

A test takes `moto` or `versitygw`, and gets the bucket with the variables that lead clients to it set. versitygw is
built from its Go module, once a version, into the cache folder: five minutes of two idle cores. So only tests with the
mark `more` take it. `python -m tests.support.other_s3` builds it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.s3 import S3Endpoint, await_put, plain_client, set_environment, skip_or_fail
from tidegate.machine.jars import cache_folder
from tidegate.testing.kafka import process
from tidegate.testing.kafka.ports import free_port

_VERSION = "1.8.0"
_MODULE = f"github.com/versity/versitygw/cmd/versitygw@v{_VERSION}"
_BUILD_SECONDS = 3000.0
_STOP_SECONDS = 10.0
_FIRST_ANSWER_SECONDS = 60.0
"""The first request makes moto import what it serves."""


@pytest.fixture(scope="session")
def moto_server() -> Iterator[S3Endpoint]:
    """By its own code, in this process: it keeps all in memory, and checks no signature."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        found = S3Endpoint("http://{}:{}".format(*server.get_host_and_port()), bucket="moto-tests")
        client = plain_client(found.endpoint, found.key, found.secret, read_seconds=_FIRST_ANSWER_SECONDS)
        client.create_bucket(Bucket=found.bucket)
        yield found
    finally:
        server.stop()


@pytest.fixture
def moto(moto_server: S3Endpoint) -> Iterator[S3Endpoint]:
    with set_environment(moto_server.environment):
        yield moto_server


@pytest.fixture(scope="session")
def versitygw_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Endpoint]:
    """A gateway to a folder of this machine, which keeps versions."""
    if not _binary().exists() and shutil.which("go") is None:
        skip_or_fail("no versitygw for tests: it is built by Go, which is not installed")
    build()
    folder = tmp_path_factory.mktemp("versitygw")
    found = S3Endpoint(f"http://127.0.0.1:{free_port(())}", bucket="versitygw-tests")
    for name in ("data", "versions"):
        (folder / name).mkdir()
    command = [
        *(str(_binary()), "--access", found.key, "--secret", found.secret),
        *("--port", found.endpoint.removeprefix("http://")),
        *("posix", "--versioning-dir", str(folder / "versions"), str(folder / "data")),
    ]
    server = process.spawn(command, folder, folder / "log")
    try:
        await_put(found, server.is_alive, folder / "log")
        yield found
    finally:
        process.end([server], _STOP_SECONDS)


@pytest.fixture
def versitygw(versitygw_server: S3Endpoint) -> Iterator[S3Endpoint]:
    with set_environment(versitygw_server.environment):
        yield versitygw_server


def build() -> None:
    """Where the binary is missing; of several processes one builds it."""
    folder = _binary().parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _binary().exists():
            print(f"building versitygw {_VERSION} for the tests", file=sys.stderr)
            environment = {**os.environ, "GOBIN": str(folder)}
            subprocess.run(["go", "install", _MODULE], env=environment, check=True, timeout=_BUILD_SECONDS)


def _binary() -> Path:
    return cache_folder() / f"versitygw-{_VERSION}" / "versitygw"


if __name__ == "__main__":
    build()
