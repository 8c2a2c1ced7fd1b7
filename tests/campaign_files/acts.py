"""What happens to files: while the job runs, and while it is down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tests.campaign_files.ground import Ground
from tests.campaign_files.known import Version


def _newest(ground: Ground) -> list[Version]:
    """Files that came last: maybe read, maybe not, maybe in this moment."""
    return list(ground.known.there.values())[-4:]


def _read(ground: Ground) -> list[Version]:
    return ground.read()


def _open(ground: Ground) -> list[Version]:
    """Files of an epoch that is not done, which stand there."""
    return sorted((each for each in ground.open() if each in ground.known.there.values()), key=lambda each: each.serial)


def _delete(ground: Ground, version: Version) -> None:
    (ground.folder / version.path).unlink()
    del ground.known.there[version.path]


def _rename(ground: Ground, version: Version) -> None:
    renamed = replace(version, path=ground.new_name())
    (ground.folder / version.path).rename(ground.folder / renamed.path)
    del ground.known.there[version.path]
    ground.known.versions.append(renamed)
    ground.known.there[renamed.path] = renamed


def _change(ground: Ground, version: Version) -> None:
    ground.write(version.path)


@dataclass(frozen=True, slots=True)
class Act:
    """Something that happens to one file of some. `is_change`: another content under a name that was there: while the
    job lets files go it could hit the new one, so it waits for a job that keeps them."""

    which: Callable[[Ground], list[Version]]
    deed: Callable[[Ground, Version], None]
    is_change: bool = False


ACTS: Mapping[str, Act] = {
    "delete a file that was read": Act(_read, _delete),
    "rename a file that was read": Act(_read, _rename),
    "change a file that was read": Act(_read, _change, is_change=True),
    "delete a file that came last": Act(_newest, _delete),
    "rename a file that came last": Act(_newest, _rename),
    "change a file that came last": Act(_newest, _change, is_change=True),
    "delete a file of an open epoch": Act(_open, _delete),
    "rename a file of an open epoch": Act(_open, _rename),
    "change a file of an open epoch": Act(_open, _change, is_change=True),
}
IN_PLACE, ADD, MOVE = "write a file in place", "add files", "move the folder"
ALIVE: Sequence[str] = (IN_PLACE, *(name for name in ACTS if "open" not in name))
DOWN: Sequence[str] = (MOVE, ADD, *ACTS)


def carry_out_act(name: str, ground: Ground, *, running: bool) -> bool:
    """Do it, if there is a file for it now; whether it was done."""
    match name:
        case "write a file in place":
            ground.write_in_place()
        case "add files":
            ground.feed(2)
        case "move the folder":
            ground.move()
        case _:
            return _touch(ACTS[name], ground, running=running)
    return True


def _touch(act: Act, ground: Ground, *, running: bool) -> bool:
    if running and (ground.scene.lost == "skip" or (act.is_change and ground.scene.after_done != "keep")):
        return False
    with suppress(FileNotFoundError):  # the job has let it go
        found = act.which(ground)
        if found:
            act.deed(ground, ground.chance.choice(found))
            return True
    return False
