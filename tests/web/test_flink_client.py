"""Flink's own command against the REST interface: it lists a running job, saves it, stops it."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.jobs.under_run import UnderRun, table, wait_until, write
from tests.support.s3 import skip_or_fail
from tidegate import operate
from tidegate.machine.jars import cache_folder
from tidegate.operate import Folder, State
from tidegate.testing.kafka.ports import free_port
from tidegate.web.application import build
from tidegate.web.guard import Addresses
from tidegate.web.guarding import PageEntry
from tidegate.web.site import Site, flink_id
from tidegate.web.tokens import Token, TokenOrigin, Tokens

pytestmark = pytest.mark.more

_VERSION = "2.3.0"
_POM = f"""<project>
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>client</artifactId><version>1</version>
<dependencies><dependency>
<groupId>org.apache.flink</groupId><artifactId>flink-clients</artifactId><version>{_VERSION}</version>
</dependency></dependencies></project>
"""
_TOKEN = "a-token-of-the-test"


@pytest.fixture(scope="module")
def jars() -> Path:
    """The classes of Flink's command, by Maven, once for each version."""
    folder = cache_folder() / f"flink-clients-{_VERSION}"
    if folder.is_dir():
        return folder
    if shutil.which("mvn") is None:
        skip_or_fail("no client of Flink for tests: Maven fetches it, which is not installed")
    begun = folder.with_name(f"{folder.name}.begun")
    begun.mkdir(parents=True, exist_ok=True)
    (begun / "pom.xml").write_text(_POM)
    copy = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(begun / "pom.xml"),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={begun}",
    ]
    subprocess.run(copy, check=True, capture_output=True)
    begun.rename(folder)
    return folder


class Served:
    """The page of a storage at a port of this machine, with the tokens that came with its requests."""

    def __init__(self, storage: Path) -> None:
        self.port = free_port(())
        self.tokens: set[str] = set()
        self._app: ASGIApp = build(Site.of(Folder.of(storage)), entry=self._entry())
        self._server = uvicorn.Server(
            uvicorn.Config(self._noting, port=self.port, log_level="warning", interface="asgi3")
        )
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def _entry(self) -> PageEntry:
        names = frozenset({f"127.0.0.1:{self.port}"})
        return PageEntry(Addresses("http", names), Tokens(Token(_TOKEN, TokenOrigin.FILE)))

    def __enter__(self) -> Served:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(20.0)

    async def _noting(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.tokens.add(dict(scope["headers"])[b"authorization"].decode())
        await self._app(scope, receive, send)


class Flink:
    """Flink's command."""

    def __init__(self, jars: Path, folder: Path, port: int) -> None:
        (folder / "config.yaml").write_text(f"rest:\n  address: 127.0.0.1\n  port: {port}\nclient:\n  timeout: 60 s\n")
        self._line = ["java", "-cp", f"{jars}/*", "org.apache.flink.client.cli.CliFrontend"]
        self._environment = {
            **os.environ,
            "FLINK_CONF_DIR": str(folder),
            "FLINK_REST_CLIENT_HEADERS": f"Authorization:Bearer {_TOKEN}",
        }

    def __call__(self, *arguments: str) -> tuple[int, str]:
        """Its exit code, and all that it prints."""
        done = subprocess.run(
            [*self._line, *arguments], env=self._environment, capture_output=True, text=True, timeout=120, check=False
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def run(tmp_path: Path) -> Iterator[UnderRun]:
    """A job with twenty rows, which waits for more."""
    write(tmp_path, 0, 20)
    with UnderRun(tmp_path, "forever") as found:
        wait_until(lambda: len(table(tmp_path)) == 20, "the rows", found)
        yield found


def test_flinks_command_lists_saves_and_stops_a_job_and_says_why_it_does_not(
    run: UnderRun, jars: Path, tmp_path: Path
) -> None:
    storage, saved = tmp_path / "checkpoints", tmp_path / "checkpoints" / "saved"
    (job,) = operate.jobs(storage)
    named = flink_id(job.job_id)
    with Served(storage) as served:
        flink = Flink(jars, tmp_path, served.port)
        code, said = flink("list")
        assert (code, f"{named} : numbers (RUNNING)" in said) == (0, True), said
        code, said = flink("checkpoint", named)
        assert (code, "completed" in said) == (0, True), said
        code, said = flink("savepoint", named, str(saved))
        assert code == 0, said
        code, said = flink("savepoint", named, "/elsewhere")
        assert (code, "/elsewhere lies outside of what is served" in said) == (1, True), said
        code, said = flink("savepoint", "f" * 32)
        assert (code, "no such job" in said) == (1, True), said
        code, said = flink("stop", named, "-p", str(saved), "--type", "native")
        assert (code, run.wait()) == (0, 0), said
        assert operate.open(storage, "numbers").view().state is State.STOPPED
        found = operate.list_savepoints(saved).savepoints
        assert sorted(each.format for each in found) == ["canonical", "native"]
        assert all(each.path in said or each.format == "canonical" for each in found)
        code, said = flink("list", "-a")
        assert f"{named} : numbers (FINISHED)" in said
        code, said = flink("savepoint", named, str(saved))
        assert (code, "the job does not run" in said) == (1, True), said
        code, said = flink("cancel", named)
        assert (code, "is not canceled" in said) == (1, True), said
    assert served.tokens == {f"Bearer {_TOKEN}"}
