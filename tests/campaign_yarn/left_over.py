"""What an application that has ended must not leave: processes, folders of its containers, files that nothing needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import hdfs_native

from tests.campaign.places import QUERIES, Places
from tests.support.remote_files import staged
from tests.support.yarn import YarnServer

_CLEAN_SECONDS = 60.0
_LOOK_SECONDS = 0.5


def left_by(yarn: YarnServer, application: str, places: Places) -> list[str]:
    """A sentence for each kind of thing that is left."""
    return list(_found(yarn, application, places))


def _found(yarn: YarnServer, application: str, places: Places) -> Iterator[str]:
    containers = f"{application.replace('application', 'container', 1)}_"
    if processes := _until_none(lambda: [str(each) for each in yarn.containers(containers)]):
        yield f"processes of containers: {processes}"
    if folders := _until_none(lambda: [str(each) for each in _folders(yarn, application)]):
        yield f"folders of containers: {folders}"
    if files := _until_none(lambda: _submitted_files(yarn, application)):
        yield f"files of the submission: {files}"
    targets = [target(query) for query in QUERIES for target in (places.files, places.more_files)]
    if rows := [name for target in targets for name in staged(target)]:
        yield f"staged rows: {rows}"


def _folders(yarn: YarnServer, application: str) -> Iterator[Path]:
    yield from yarn.folder.glob(f"local/usercache/*/appcache/{application}")


def _submitted_files(yarn: YarnServer, application: str) -> list[str]:
    client = hdfs_native.Client(yarn.hdfs.uri)
    found = client.list_status("/user", recursive=True)
    return [each.path for each in found if f"/{application}/" in each.path]


def _until_none(look: Callable[[], list[str]]) -> list[str]:
    """YARN cleans up a moment after the end."""
    end = time.monotonic() + _CLEAN_SECONDS
    while (found := look()) and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
    return found
