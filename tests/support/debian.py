"""Servers for tests out of Debian's packages, unpacked and not installed: no root, and nothing of the machine changes.

    REDIS = Packages("redis", ("redis-server", "redis-tools", "liblzf1", "libjemalloc2"))
    folder = unpacked(REDIS)
    subprocess.Popen([folder / "usr/bin/redis-server", ...], env=environment_of(folder))

apt checks the signatures. The packages are kept in `.venv/cache`, so each is downloaded once. A package that was
replaced in the archive since the last `apt-get update` is found by an update into a folder of this module.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.house.repository import ROOT
from tests.support.archives import Archive, NotToBeHad, Reached

_CACHE = ROOT / ".venv" / "cache" / "debian"
_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Packages:
    """A server and the libraries that it needs, beside those of a minimal system."""

    name: str
    packages: tuple[str, ...]
    archive: Archive = Archive.MACHINE


def unpacked(wanted: Packages) -> Path:
    """The folder that holds the files of the packages, with the paths that they have below `/`.

    Raises NotToBeHad with apt's own words.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise NotToBeHad(f"{wanted.name} comes from Debian's packages, and this machine has no apt")
    folder = _CACHE / wanted.name
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / f"{wanted.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=_CACHE) as work:
                _download(wanted, Path(work))
                _unpack(Path(work)).rename(folder)
    return folder


def kept(name: str) -> Path:
    """The folder of the packages with this name; it may be absent, and nothing is downloaded."""
    return _CACHE / name


def environment_of(folder: Path) -> dict[str, str]:
    """What a program of the folder needs to find its libraries."""
    libraries = sorted({str(path.parent) for path in folder.glob("usr/lib/**/*.so*")})
    return {"PATH": os.environ.get("PATH", ""), "LD_LIBRARY_PATH": ":".join(libraries), "LC_ALL": "C.UTF-8"}


def _download(wanted: Packages, work: Path) -> None:
    if wanted.archive is not Archive.MACHINE:
        _download_from(wanted.archive, wanted.packages, work)
        return
    try:
        _run(work, "apt-get", "download", *wanted.packages)
    except NotToBeHad:
        own = _own_lists(Archive.MACHINE, work)
        _run(work, "apt-get", *own, "update")
        _run(work, "apt-get", *own, "download", *wanted.packages)


def _download_from(archive: Archive, packages: Sequence[str], work: Path) -> None:
    sources = work / "sources.list"
    sources.write_text(Reached(lambda place, name: unpacked(Packages(name, (name,), place))).sources_of(archive))
    only = ("-o", f"Dir::Etc::SourceList={sources}", "-o", "Dir::Etc::SourceParts=-")
    nothing_installed = ("-o", f"Dir::State::Status={os.devnull}")
    own = (*_own_lists(archive, work), *only, *nothing_installed)
    _run(work, "apt-get", *own, "update")
    _run(work, "apt-get", *own, "download", *packages)


def _own_lists(archive: Archive, work: Path) -> tuple[str, ...]:
    lists = _CACHE / f"lists-{archive.name.lower()}"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    return "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={work}/cache"


def _unpack(work: Path) -> Path:
    files = work / "files"
    files.mkdir()
    for package in sorted(work.glob("*.deb")):
        _run(work, "dpkg", "-x", str(package), str(files))
    return files


def _run(work: Path, *command: str) -> None:
    try:
        ended = subprocess.run(
            command, cwd=work, capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise NotToBeHad(f"{command[0]} took longer than {_SECONDS:.0f} s") from None
    if ended.returncode:
        raise NotToBeHad((ended.stderr or ended.stdout).strip()[-500:])
