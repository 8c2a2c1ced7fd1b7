"""Which paths a client may name: those below the storage, below a job's `savepoints.dir`, and below the folders that
the operator allows. The server decides, and nothing is opened before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

from tidegate.operate import Folder
from tidegate.web.problems import RequestProblem
from tidegate.web.site import Site

_SHOWN = 200
_SAVEPOINTS_DIR = "savepoints.dir"


def allowed(site: Site, text: str) -> str:
    """The place that `text` names, behind all links. Raises `RequestProblem` for one that lies elsewhere, SETTING_VALUE
    for a scheme without a storage."""
    if "\0" in text:
        raise RequestProblem(HTTPStatus.BAD_REQUEST, "no folder has a NUL in its name")
    place = _resolved(Folder.of(text))
    if not any(is_below(place, _resolved(root)) for root in roots(site)):
        raise RequestProblem(
            HTTPStatus.FORBIDDEN,
            f"{text[:_SHOWN]} lies outside of what is served",
            "name a folder below the storage, below the savepoints.dir of a job, or below a folder of ui.programs",
        )
    return str(place)


def roots(site: Site) -> Iterator[Folder]:
    """The folders below which a client may name paths."""
    yield site.storage
    for folder in savepoint_folders(site):
        yield Folder.of(folder)
    for folder in site.programs:
        yield Folder.of(folder)


def savepoint_folders(site: Site) -> list[str]:
    """The `savepoints.dir` of every job, each once. Drivers report the whole path. A relative one is left out: it is
    that of a driver in a container, or of an older release."""
    named = {
        setting.value
        for job in site.jobs()
        if job.beat is not None
        for setting in job.beat.settings
        if setting.name == _SAVEPOINTS_DIR and is_whole(setting.value)
    }
    return sorted(named)


def is_whole(folder: str) -> bool:
    """True for a URI and for a whole path. A relative one counts from the driver's own working folder, which is not
    known here."""
    return "://" in folder or Path(folder).is_absolute()


def is_below(place: Folder, root: Folder) -> bool:
    """True if `place` is `root` or below it. Both are without links and without `..`."""
    return (place.scheme, place.authority) == (root.scheme, root.authority) and Path(place.path).is_relative_to(
        root.path
    )


def _resolved(place: Folder) -> Folder:
    """Behind all links, on a disk. Paths of other storages have no links, and their `..` are resolved already."""
    return Folder.of(os.path.realpath(place.local())) if place.is_local else place
