"""The kinds of values of the settings of the page: ports, hosts, origins, lists of folders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from tidegate.settings.kinds import COUNT_FROM_0, LOCAL_FOLDER, SettingKind

_HIGHEST_PORT = 65_535
_BETWEEN_FOLDERS = ":"
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_ORIGIN = re.compile(r"https://(?:[a-z0-9][a-z0-9.-]{0,252}|\[[0-9a-f:.]+\])(?::[1-9]\d{0,4})?")


def _port(value: object) -> int:
    number = COUNT_FROM_0.read(value)
    if number > _HIGHEST_PORT:
        raise ValueError
    return number


def _host(value: object) -> str:
    """A name or an address, without a port. The brackets of an IPv6 address may be left out."""
    host = value.strip().removeprefix("[").removesuffix("]") if isinstance(value, str) else ""
    if not _HOST.fullmatch(host):
        raise ValueError
    return host


def _origin(value: object) -> str:
    """An origin as browsers write it, in small letters and without a port that `https` implies."""
    origin = value.strip().lower().removesuffix("/") if isinstance(value, str) else ""
    if not _ORIGIN.fullmatch(origin):
        raise ValueError
    return origin.removesuffix(":443")


def _folders(value: object) -> tuple[str, ...]:
    """A list of paths, or a text with `:` between them, as in PATH."""
    if isinstance(value, str) and "://" not in value:
        return tuple(LOCAL_FOLDER.read(each) for each in value.split(_BETWEEN_FOLDERS) if each)
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(LOCAL_FOLDER.read(each) for each in cast("Sequence[object]", value))


PORT = SettingKind("a port from 0 to 65535", _port)
HOST = SettingKind("a name or an address of this machine", _host)
ORIGIN = SettingKind("an origin, such as https://jobs.example.com", _origin)
FOLDERS = SettingKind(f"paths, with `{_BETWEEN_FOLDERS}` between them", _folders, _BETWEEN_FOLDERS.join)
