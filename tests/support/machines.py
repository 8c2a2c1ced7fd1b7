"""Machines for tests: network namespaces with a host name of their own, joined by a bridge, on this machine.

    with Machines(2) as machines:
        first, second = machines
        ...  # `first.command(...)` runs there; `first.cut()` takes its cable out

They share the disk and the processes' numbers. Servers that all of them reach listen on `machines.address`. To make
them needs the rights of root; where these are missing, tests are skipped with the reason, and fail in CI.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pytest

_BEGIN = 'hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"'
"""Runs in the namespace: the name of the host, the file of names, and the command."""

_HIDE = 'mount -t tmpfs none "$0" && exec "$@"'
"""Runs in the namespace: the folder to hide, and the command."""


class Machine:
    """A network namespace with one address."""

    def __init__(self, name: str, number: int, network: str, bridge: str, hosts: Path) -> None:
        self.name = name
        self.address = f"{network}.{number}"
        self._cable = f"{bridge}-{number}"
        self._space = f"{bridge}-{name}"
        self._hosts = hosts
        _ip("netns", "add", self._space)
        _ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self._space)
        _ip("link", "set", self._cable, "master", bridge, "up")
        for of_link in (
            ("addr", "add", f"{self.address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", self._space, *of_link)

    def command(self, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` there. The process keeps its number."""
        there = ["ip", "netns", "exec", self._space, "unshare", "--uts", "--mount"]
        return [*there, "sh", "-c", _BEGIN, self.name, str(self._hosts), *command]

    def cut(self) -> None:
        """From here on no packet comes or goes."""
        _ip("link", "set", self._cable, "down")

    def mend(self) -> None:
        _ip("link", "set", self._cable, "up")

    def remove(self) -> None:
        """Processes there must have ended."""
        with suppress(subprocess.CalledProcessError):
            _ip("netns", "del", self._space)


class OtherDisk:
    """This machine, with an empty folder in the place of the one that it does not see."""

    def __init__(self, unseen: Path) -> None:
        self._unseen = unseen

    def command(self, command: Sequence[str]) -> list[str]:
        """As `Machine.command`."""
        return ["unshare", "--mount", "sh", "-c", _HIDE, str(self._unseen), *command]


class Machines:
    """Some machines and the bridge between them, as long as it is open as a context manager."""

    def __init__(self, count: int) -> None:
        token = secrets.token_hex(2)
        self._bridge = f"tg{token}"
        network = f"10.213.{int(token[:2], 16)}"
        self.address = f"{network}.1"
        self._folder = tempfile.TemporaryDirectory(prefix="tidegate-machines-")
        self._machines: list[Machine] = []
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("addr", "add", f"{self.address}/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            names = [f"machine-{number}" for number in range(1, count + 1)]
            hosts = Path(self._folder.name) / "hosts"
            numbered = list(enumerate(names, start=2))
            lines = ["127.0.0.1 localhost", *(f"{network}.{number} {name}" for number, name in numbered)]
            hosts.write_text("\n".join([*lines, ""]))
            for number, name in numbered:
                self._machines.append(Machine(name, number, network, self._bridge, hosts))
        except BaseException:
            self._remove()
            raise

    def __iter__(self) -> Iterator[Machine]:
        return iter(self._machines)

    def __enter__(self) -> Machines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for machine in self._machines:
            machine.remove()
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._bridge)
        self._folder.cleanup()


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    """Two machines."""
    try:
        found = Machines(2)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no network namespaces for tests: {error}")
    with found:
        yield found


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
