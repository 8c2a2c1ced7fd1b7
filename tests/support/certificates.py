"""Certificates for the servers of tests."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.postgres import give_away, user_of_servers


@contextmanager
def certificates() -> Iterator[tuple[tuple[Path, Path], tuple[Path, Path]]]:
    """Two that sign themselves, for the same address: that of the server, and another one. Each with its key."""
    ours, other = (certificate(name) for name in ("ours", "other"))
    try:
        yield ours, other
    finally:
        for file, _ in (ours, other):
            shutil.rmtree(file.parent)


def certificate(name: str) -> tuple[Path, Path]:
    """A certificate that signs itself, for 127.0.0.1, and its key, which the server's user alone may read."""
    folder = Path(tempfile.mkdtemp(prefix=f"tidegate-{name}-"))  # its parents let the server's user in
    files = folder / "server.crt", folder / "server.key"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, *names, "-out", str(files[0]), "-keyout", str(files[1])], check=True, capture_output=True)
    files[1].chmod(0o600)
    give_away((folder, *files), user_of_servers())
    return files
