"""Where the jobs of a user on YARN keep their checkpoints: one note for each folder of jobs, in the user's home.

YARN cannot be asked for it. What it shows of an application is fixed when the application is submitted, and the folder
may be known to the program alone. So each driver notes its folder before the job begins. The notes are few, as the
folders are; none changes, and none is removed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tidegate.core.digests import sha256
from tidegate.core.records import NotedFolder, decode, encode
from tidegate.machine.user import hadoop_user
from tidegate.storages.hadoop import default_file_system
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

_FOLDERS = "folders"
_DIGITS = 16


def home_here() -> Folder | None:
    """The home of the notes, as HADOOP_CONF_DIR tells this process. None without a file system of a cluster."""
    return home_on(default_file_system())


def home_on(file_system: str) -> Folder | None:
    """The home of the notes: `/user/NAME/.tidegate` on a file system of Hadoop (`fs.defaultFS`). NAME is
    HADOOP_USER_NAME, else the user of this process. None for a local disk, which other machines do not see.
    """
    root = Folder.of(file_system) if file_system else None
    return None if root is None or root.is_local else root / "user" / hadoop_user(os.environ) / ".tidegate"


def note_folder(home: Folder, jobs: Folder) -> None:
    """Note a folder of jobs. The second note of the same folder changes nothing."""
    name = sha256(str(jobs).encode())[:_DIGITS]
    open_storage(home).put_if_absent(f"{_FOLDERS}/{name}", encode(NotedFolder(folder=str(jobs))))


def noted_folders(home: Folder) -> Sequence[Folder]:
    """The folders that are noted, sorted. Raises STORAGE_UNUSABLE, RECORD_..."""
    notes = open_storage(home)
    names = [f"{_FOLDERS}/{name}" for name in notes.peek_names(_FOLDERS)]
    found = [decode(NotedFolder, data, notes.where(name)) for name in names if (data := notes.peek(name)) is not None]
    return [Folder.of(each) for each in sorted(each.folder for each in found)]
