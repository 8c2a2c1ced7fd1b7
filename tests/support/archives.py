"""Archives of packages beside those of the machine, for servers that its own release does not have.

Each has its own list of sources. apt checks the signatures; the keys come out of packages that it has checked, too.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class NotToBeHad(Exception):
    """The machine has no apt, or no archive that it can reach."""


class Archive(Enum):
    """Where packages come from."""

    MACHINE = "the machine's own"
    BACKPORTS = "the backports of this release of Debian"
    UBUNTU_22_04 = "Ubuntu 22.04"


_KEYS_OF_DEBIAN = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_JAMMY = ("jammy", "jammy-updates")


@dataclass(frozen=True, slots=True)
class Reached:
    """What the sources of another archive are written from. `unpacked`: fetches packages by their names."""

    unpacked: Callable[[Archive, str], Path]

    def sources_of(self, archive: Archive) -> str:
        """The lines of sources.list. Raises NotToBeHad."""
        return _SOURCES[archive](self)


def _backports(_: Reached) -> str:
    """The machine's own sources say where Debian is, and how its release is called."""
    for line in _said("apt-get", "indextargets", "--format", "$(ORIGIN) $(CODENAME) $(SUITE) $(REPO_URI)"):
        origin, codename, suite, address = line.split(" ", 3)
        if origin == "Debian" and "-" not in codename and "-" not in suite:
            suites = (codename, f"{codename}-backports")
            return "".join(f"deb [signed-by={_KEYS_OF_DEBIAN}] {address} {suite} main\n" for suite in suites)
    raise NotToBeHad("the machine's sources have no release of Debian")


def _ubuntu(reached: Reached) -> str:
    """python-apt-common says where Ubuntu is; its keys are a package of Debian."""
    templates = reached.unpacked(Archive.MACHINE, "python-apt-common") / "usr/share/python-apt/templates"
    keys = reached.unpacked(Archive.BACKPORTS, "ubuntu-keyring") / "usr/share/keyrings"
    lines = (templates / "Ubuntu.info").read_text().splitlines()
    address = next(line.split()[1] for line in lines if line.startswith("BaseURI-amd64:"))
    signed = f"[arch=amd64 signed-by={keys / 'ubuntu-archive-keyring.gpg'}]"
    return "".join(f"deb {signed} {address} {suite} main\n" for suite in _JAMMY)


_SOURCES: Mapping[Archive, Callable[[Reached], str]] = {Archive.BACKPORTS: _backports, Archive.UBUNTU_22_04: _ubuntu}


def _said(*command: str) -> list[str]:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if ended.returncode:
        raise NotToBeHad((ended.stderr or ended.stdout).strip()[-500:])
    return ended.stdout.splitlines()
