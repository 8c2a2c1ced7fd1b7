"""MySQL 8.0 for tests, out of Ubuntu's packages: as `mariadb` has MariaDB.

The tests of `tests/mysql` run on MariaDB, and on MySQL where the environment has TIDEGATE_TEST_MYSQL=8.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.archives import Archive
from tests.support.debian import Packages
from tests.support.mariadb import MariaDBServer, started_of

MYSQL_8 = Packages(
    "mysql-8.0",
    (
        *("mysql-server-core-8.0", "libicu70", "libprotobuf-lite23", "libaio1", "libevent-core-2.1-7"),
        *("libevent-pthreads-2.1-7", "libnuma1", "libmecab2", "libtirpc3"),
    ),
    Archive.UBUNTU_22_04,
)


class MySQL8Server(MariaDBServer):
    """A server in a folder of its own, with one user who may do everything. Its logins are by `caching_sha2_password`,
    the default of MySQL 8.
    """

    program = "mysqld"
    plain_engine = "BLACKHOLE"
    isolation = "transaction_isolation"
    has_negative_zero = True
    settings = {**MariaDBServer.settings, "mysqlx": "OFF", "secure-file-priv": "NULL"}  # noqa: RUF012

    def options(self, **others: Any) -> dict[str, Any]:
        """Without TLS, so that a proxy between them reads along."""
        return super().options(**{"ssl_disabled": True, **others})

    def branches(self) -> list[str]:
        found = self.execute("XA RECOVER CONVERT XID")
        return sorted(_in_sql(*row) for row in found)

    def _make_system_tables(self) -> None:
        made = self._run("--initialize-insecure")
        made.wait()
        if made.returncode:
            raise RuntimeError(self._told("the system tables could not be made"))

    def _make_data(self) -> Path:
        """The server makes its folder by itself."""
        return self._folder


@pytest.fixture(scope="session")
def mysql8() -> Iterator[MariaDBServer]:
    """One server of MySQL 8.0 for this run of pytest. Shared: use databases of your own."""
    server = started_of(MySQL8Server, MYSQL_8, {})
    try:
        yield server
    finally:
        server.remove()


def _in_sql(format_id: int, gtrid_bytes: int, _: int, data: str) -> str:
    """The identifier as XA COMMIT takes it. `data`: both parts, as one number in hexadecimal."""
    digits = data[2:]
    return f"X'{digits[: 2 * gtrid_bytes]}',X'{digits[2 * gtrid_bytes :]}',{format_id}"
