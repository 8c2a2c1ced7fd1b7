"""The settings of a job as its driver reports them: readers of the report have other working folders."""

from __future__ import annotations

from tidegate.operate.beat import ShownSetting
from tidegate.settings.config import Settings
from tidegate.settings.given import shown
from tidegate.storages.schemes import Folder


def shown_settings(settings: Settings, *, in_container: bool) -> tuple[ShownSetting, ...]:
    """Every setting in displayable form, with its origin. The folder of savepoints has its whole path."""
    folder = savepoints_folder(settings, in_container=in_container)
    whole = {} if folder is None else {"savepoints.dir": shown(folder)}
    return tuple(
        ShownSetting(name=row.name, value=whole.get(row.name, row.value), origin=row.origin)
        for row in settings.describe()
    )


def savepoints_folder(settings: Settings, *, in_container: bool) -> str | None:
    """`savepoints.dir`, with the whole path if it is relative.

    `in_container`: a cluster removes the working folder of this process, so a relative path has no whole one that
    lasts. It stays as it is, and the requests for savepoints are refused.
    """
    named = settings.savepoints_dir
    if named is None or in_container:
        return named
    folder = Folder.of(named)
    return str(folder) if folder.is_local else named
