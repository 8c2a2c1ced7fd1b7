"""Files of an epoch that are missing or changed before the epoch is done: the checks and the errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.core.errors import Code, TidegateError
from tidegate.sources.files.listing import Files
from tidegate.sources.files.lists import Listed
from tidegate.sources.files.options import LostFiles

GONE = "is gone"
_NAMES_SHOWN = 3


def fault_of(files: Files, listed: Listed) -> str | None:
    """The difference between a listed file and the file on the disk, as text; None if there is none."""
    seen = files.look(listed.path)
    if seen is None:
        return GONE
    if not listed.fits(seen):
        before = "another time" if listed.size is None else f"{listed.size} bytes of another time"
        return f"has {seen.size} bytes now, and had {before}" if listed.size != seen.size else "has another time"
    if listed.ends is not None and files.ends(listed.path) not in (None, listed.ends):
        return "has other bytes"
    return None


def lost(where: str, wrong: Mapping[str, str]) -> TidegateError:
    """The error for missing or changed files of an epoch that is replayed. `wrong`: for each path, what is wrong."""
    put_back = 'put them back as they were, with their times (cp -p); or read on without them with lost="skip"'
    gone = [path for path, fault in wrong.items() if fault == GONE]
    if gone:
        return TidegateError(
            Code.FILE_LOST,
            expected=f"the files of an epoch that is not done yet: {some_names(gone)}",
            found=f"{len(gone)} of them are gone",
            where=where,
            next_step=put_back,
        )
    return TidegateError(
        Code.FILE_CHANGED,
        expected="the files of an epoch that is not done yet as they were when it began",
        found=_faults(wrong),
        where=where,
        next_step=put_back,
    )


def lost_meanwhile(where: str, wrong: Mapping[str, str], policy: LostFiles) -> TidegateError:
    """The error for files that were lost or changed while the epoch read them.

    With `LostFiles.SKIP` it says that the next attempt reads the epoch without them.
    """
    if policy is LostFiles.REFUSE:
        return lost(where, wrong)
    return TidegateError(
        Code.EPOCH_FAILED,
        expected="files that stay while an epoch reads them",
        found=_faults(wrong),
        where=where,
        next_step="start the job again: the epoch comes again without these files",
    )


def some_names(names: Iterable[str]) -> str:
    """The first few names, and the number of further ones."""
    found = list(names)
    more = f" and {len(found) - _NAMES_SHOWN} more" if len(found) > _NAMES_SHOWN else ""
    return ", ".join(found[:_NAMES_SHOWN]) + more


def _faults(wrong: Mapping[str, str]) -> str:
    return some_names(f"{path} {fault}" for path, fault in wrong.items())
