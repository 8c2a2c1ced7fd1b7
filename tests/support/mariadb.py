"""MariaDB servers for tests: out of Debian's packages, on loopback, data in a temporary folder, in memory
where the machine has one for files.

    def test_something(mariadb: MariaDBServer) -> None:
        database = mariadb.database()  # of its own
        ...

One server starts when the first test of a run of pytest asks for it. Where it cannot be had, its tests are skipped with
the reason; where the environment has CI set, they fail. The server refuses to run as root: there it runs as `nobody`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, ClassVar, TypeVar

import pytest

from tests.support.debian import NotToBeHad, Packages, environment_of, unpacked
from tests.support.postgres import give_away, is_within_reach, user_of_servers
from tests.support.s3 import skip_or_fail
from tidegate.extras import Extra
from tidegate.testing.kafka.ports import free_port

MARIADB = Packages("mariadb", ("mariadb-server-core", "liburing2", "libaio1", "libnuma1"))
USER, PASSWORD = "owner", "n0t-shown-anywhere"
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.02
_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""Each CREATE TABLE syncs; here that takes no time. The processes are killed, the machine is not."""
_SHOWN_LINES = 15
_SETTINGS = {
    "innodb-flush-log-at-trx-commit": "2",
    "innodb-buffer-pool-size": "64M",
    "innodb-log-file-size": "16M",
    "max-connections": "40",
    "local-infile": "ON",
}
_SYSTEM_TABLES = (
    "mysql_system_tables.sql",
    "mysql_performance_tables.sql",
    "mysql_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
    "mysql_sys_schema.sql",
)
"""As mariadb-install-db has them, which itself needs more packages."""


class MariaDBServer:
    """A server in a folder of its own, with one user who may do everything."""

    program: ClassVar[str] = "mariadbd"
    settings: ClassVar[Mapping[str, str]] = _SETTINGS
    plain_engine: ClassVar[str] = "Aria"
    """A storage engine without transactions that the other server does not have."""
    isolation: ClassVar[str] = "tx_isolation"
    """The variable with the isolation of transactions."""
    has_negative_zero: ClassVar[bool] = False

    def __init__(self, programs: Path, settings: Mapping[str, str] | None = None, *, on_disk: bool = False) -> None:
        self.port = free_port(())
        self._programs = programs
        self._settings = {**self.settings, **(settings or {})}
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-mariadb-", dir=None if on_disk else _MEMORY))
        self._user = user_of_servers()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def session(self) -> int:
        """The session of its processes, while it runs."""
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process.pid

    @property
    def log(self) -> Path:
        return self._folder / "log"

    @property
    def socket(self) -> str:
        return str(self._folder / "socket")

    def options(self, **others: Any) -> dict[str, Any]:
        """The options of a sink that lead here."""
        return {"port": self.port, "user": USER, "password": PASSWORD, **others}

    def start(self) -> None:
        """Make the data folder and the user, and start; return when the server takes connections."""
        give_away((self._folder, self._make_data()), self._user)
        if self._user is not None and not is_within_reach(self._programs):
            shutil.copytree(self._programs / "usr", self._folder / "programs" / "usr")
            self._programs = self._folder / "programs"
        self._make_system_tables()
        self.resume()
        for statement in (
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION",
        ):
            self.execute(statement, user="root", password="", unix_socket=self.socket)

    def resume(self) -> None:
        """Start on the data that is there, at the same port."""
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        self._process = self._run(
            *("--bind-address=127.0.0.1", f"--port={self.port}", f"--socket={self.socket}"),
            *(f"--pid-file={self._folder / 'pid'}", *options),
        )
        self._await_answer(self._process)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the server; by SIGKILL it recovers at its next start, as after a crash."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait()

    def crash(self) -> None:
        """As by a power loss: it recovers from its log."""
        self.stop(signal.SIGKILL)
        self.resume()

    def remove(self) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def database(self) -> str:
        """A new database, with a name that must be quoted."""
        name = f"D `{secrets.token_hex(4)}`"
        self.execute(f"CREATE DATABASE {quoted(name)}")
        return name

    def execute(self, query: str, values: Sequence[Any] | None = None, **settings: Any) -> list[tuple[Any, ...]]:
        """The rows of one statement; an empty list for one without rows."""
        import pymysql

        known = {"host": "127.0.0.1", "port": self.port, "user": USER, "password": PASSWORD}
        given: dict[str, Any] = {**known, "init_command": "SET time_zone = '+00:00'", **settings}
        with pymysql.connect(autocommit=True, **given) as connection, connection.cursor() as cursor:
            cursor.execute(query, values)
            return list(cursor.fetchall())

    def branches(self) -> list[str]:
        """The XA branches that are prepared, in the form of XA COMMIT."""
        return sorted(xid for *_, xid in self.execute("XA RECOVER FORMAT='SQL'"))

    def end_branches(self) -> None:
        """What an administrator may do at any time."""
        import pymysql

        for xid in self.branches():
            with suppress(pymysql.err.OperationalError):  # the server has rolled it back, and says so
                self.execute(f"XA ROLLBACK {xid}")

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _make_data(self) -> Path:
        self._data.mkdir()
        return self._data

    def _make_system_tables(self) -> None:
        scripts = self._programs / "usr" / "share" / "mysql"
        with tempfile.TemporaryFile() as given:
            given.write(b"CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n")
            for name in _SYSTEM_TABLES:
                given.write((scripts / name).read_bytes() + b"\n")
            given.seek(0)
            made = self._run("--bootstrap", "--log-warnings=0", "--enforce-storage-engine=", given=given)
            made.wait()
        if made.returncode:
            raise RuntimeError(self._told("the system tables could not be made"))

    def _run(self, *arguments: str, given: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [
                    str(self._programs / "usr" / "sbin" / self.program),
                    *("--no-defaults", f"--basedir={self._programs / 'usr'}", f"--datadir={self._data}"),
                    *(f"--lc-messages-dir={self._programs / 'usr' / 'share' / 'mysql'}", f"--tmpdir={self._folder}"),
                    f"--plugin-dir={self._programs / 'usr' / 'lib' / 'mysql' / 'plugin'}",
                    *arguments,
                ],
                cwd=self._folder,
                stdin=given or subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
                start_new_session=True,  # Ctrl-C of pytest must not stop it before the tests have ended
                user=self._user,
            )

    def _environment(self) -> dict[str, str]:
        return {**environment_of(self._programs), "TZ": "America/Los_Angeles"}

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        import pymysql

        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.execute("SELECT 1", user="root", password="", unix_socket=self.socket)
            except pymysql.err.OperationalError as error:
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(self._told(f"the server does not answer: {error}")) from error
                time.sleep(_LOOK_SECONDS)
            else:
                return

    def _told(self, what: str) -> str:
        return "\n".join([what, *self.log.read_text("utf-8", "replace").splitlines()[-_SHOWN_LINES:]])


ServerT = TypeVar("ServerT", bound=MariaDBServer)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def started(*, on_disk: bool = False, **settings: str) -> MariaDBServer:
    """A server of its own for one test; the caller removes it. `on_disk`: a sync takes its time there."""
    if os.environ.get("TIDEGATE_TEST_MYSQL") == "8.0":
        from tests.support.mysql8 import MYSQL_8, MySQL8Server

        return started_of(MySQL8Server, MYSQL_8, settings, on_disk=on_disk)
    return started_of(MariaDBServer, MARIADB, settings, on_disk=on_disk)


def started_of(
    kind: type[ServerT], packages: Packages, settings: Mapping[str, str], *, on_disk: bool = False
) -> ServerT:
    if Extra.MYSQL.missing:
        skip_or_fail("no client for MariaDB: pymysql is not installed")
    try:
        programs = unpacked(packages)
    except NotToBeHad as reason:
        skip_or_fail(f"no {packages.name} for tests: {reason}")
        raise
    server = kind(programs, {name.replace("_", "-"): value for name, value in settings.items()}, on_disk=on_disk)
    try:
        server.start()
    except BaseException:
        server.remove()
        raise
    return server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDBServer]:
    """The one server of this run of pytest. Shared: use databases of your own."""
    server = started()
    try:
        yield server
    finally:
        server.remove()
