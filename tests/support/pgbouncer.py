"""pgbouncer in front of a server for tests, in transaction mode: each transaction may get another backend.

It comes out of Debian's packages. Where it cannot be had, its tests are skipped.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.debian import Packages
from tests.support.postgres import DATABASE, PASSWORD, USER, PostgresServer, give_away, of_debian, user_of_servers
from tidegate.testing.kafka.ports import free_port

_PACKAGES = Packages("pgbouncer", ("pgbouncer", "libevent-2.1-7", "libc-ares2"))
_START_SECONDS = 30.0


@contextmanager
def pooler(server: PostgresServer, backends: int = 4) -> Iterator[int]:
    """The port of a pooler with so many connections to the server."""
    port, folder = free_port((server.port,)), Path(tempfile.mkdtemp(prefix="tidegate-pgbouncer-"))
    programs, user = of_debian(_PACKAGES, "usr/sbin"), user_of_servers()
    if user is not None:
        programs = programs.in_reach(folder)
    (folder / "users").write_text(f'"{USER}" "{PASSWORD}"\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n{DATABASE} = host=127.0.0.1 port={server.port} user={USER} password={PASSWORD}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = scram-sha-256\n"
        f"auth_file = {folder}/users\npool_mode = transaction\ndefault_pool_size = {backends}\n"
    )
    give_away((folder, *folder.iterdir()), user)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [programs / "pgbouncer", "-q", str(folder / "pgbouncer.ini")],
            env=programs.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            user=user,
        )
    try:
        _await(process, port, folder / "log")
        yield port
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, log.read_text("utf-8", "replace")
            assert time.monotonic() < end, log.read_text("utf-8", "replace")
            time.sleep(0.02)
        else:
            return
