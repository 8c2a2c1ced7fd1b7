"""A rename on HDFS that overwrites nothing, and whose answer is not trusted."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

from tidegate.storages.hdfs.client import HdfsClient
from tidegate.storages.hdfs.failures import HdfsFailure, Trouble


class Renaming(Enum):
    """What became of a rename."""

    YES = auto()
    GONE = auto()
    """There is no file of the old name, and the new name has none of this call."""

    TAKEN = auto()
    """The new name has another file, which stays."""


def moved(client: HdfsClient, path: str, to: str) -> Renaming:
    """Rename a file. After a failure a look decides. Retries use the same new name: a rename that is carried out late
    then finds it taken. Raises HdfsFailure.
    """
    tries = client.tries()
    before = client.status(path)
    while before is not None:
        try:
            client.rename(path, to, overwrite=False)
        except HdfsFailure as failure:
            if client.status(path, tries=tries) is None:
                found = client.status(to, tries=tries)
                is_it = found is not None and replace(found, name=before.name) == before
                return Renaming.YES if is_it else Renaming.GONE
            if failure.trouble is Trouble.EXISTS:
                return Renaming.TAKEN
            if not tries.again(failure):
                raise
        else:
            client.forget_own(path)
            return Renaming.YES
    return Renaming.GONE
