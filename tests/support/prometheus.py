"""Prometheus for tests, out of Debian's package: `promtool`, and a server on loopback with data in a temporary folder.

Where it cannot be had, its tests are skipped with the reason; where the environment has CI set, they fail.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.debian import NotToBeHad, Packages, environment_of, unpacked
from tests.support.s3 import skip_or_fail
from tidegate.testing.kafka.ports import free_port

PROMETHEUS = Packages("prometheus", ("prometheus",))
_START_SECONDS = 30.0
_LOOK_SECONDS = 0.05


def unpacked_prometheus() -> Path:
    """The folder with the files of the package. Skips the test where it cannot be had."""
    try:
        return unpacked(PROMETHEUS)
    except NotToBeHad as error:
        skip_or_fail(f"no Prometheus: {error}")
        raise


def promtool(*arguments: str, given: bytes = b"") -> tuple[int, str]:
    """Run `promtool` with these arguments; its exit code, and all that it says. `given`: its standard input."""
    folder = unpacked_prometheus()
    ended = subprocess.run(
        [folder / "usr/bin/promtool", *arguments],
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment_of(folder),
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stdout.decode()


class Prometheus:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}/api/v1"

    def value(self, query: str) -> list[dict[str, Any]]:
        """The series that the query gives now."""
        return self._get(f"query?{urllib.parse.urlencode({'query': query})}")["result"]

    def alerts(self) -> set[str]:
        """The names of the rules that the server has loaded."""
        groups = self._get("rules")["groups"]
        return {rule["name"] for group in groups for rule in group["rules"]}

    def await_value(self, query: str) -> list[dict[str, Any]]:
        """The series of the query, as soon as there is one."""
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                if found := self.value(query):
                    return found
            except (urllib.error.URLError, ConnectionError):
                pass
            if time.monotonic() > end:
                raise AssertionError(f"Prometheus has no series for {query}")
            time.sleep(_LOOK_SECONDS)

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._address}/{path}", timeout=10) as answer:
            return json.load(answer)["data"]


@contextmanager
def prometheus(folder: Path, target_port: int, rules: Path) -> Iterator[Prometheus]:
    """A server that scrapes `127.0.0.1:target_port` each second, with the rules of a file."""
    files, port = unpacked_prometheus(), free_port(())
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "tidegate", "static_configs": [{"targets": [f"127.0.0.1:{target_port}"]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(settings))  # JSON is YAML
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                files / "usr/bin/prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
            env=environment_of(files),
        )
        try:
            yield Prometheus(port)
        finally:
            process.terminate()
            process.wait(30)
