"""Programs that the operator allows to be started, and how one is started: by `tidegate run -d`, in a session of its
own, so that the job outlives the page."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tidegate import operate
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.machine.own_python import module_command
from tidegate.operate import Folder
from tidegate.settings.given import CONFIG_VARIABLE
from tidegate.web.places import is_below
from tidegate.web.problems import RequestProblem, refusal
from tidegate.web.site import Site

if TYPE_CHECKING:
    from tidegate.operate import RestoreCheck

OFF = "no program may be started from here"
_HOW = "let the operator name folders of programs in the setting ui.programs"
_ENDING = ".py"
_STARTS_AT_ONCE = threading.BoundedSemaphore(2)
_OURS = "TIDEGATE_"


@dataclass(frozen=True, slots=True)
class OfferedProgram:
    """A Python file in an allowed folder. `changed_at`: seconds since 1970."""

    id: str
    path: Path
    changed_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """How a program is started. `savepoint`: an allowed place."""

    program: OfferedProgram
    arguments: Sequence[str] = ()
    parallelism: int | None = None
    savepoint: str | None = None
    allow_non_restored_state: bool = False
    claim: bool = False


class StartedJob(msgspec.Struct, frozen=True, kw_only=True):
    """What `tidegate run -d --json` prints. `exit`: if the job has ended already. `text`: its error."""

    job: str | None
    process: int
    log: str
    exit: int | None = None
    text: str = ""


def programs(site: Site) -> list[OfferedProgram]:
    """The programs in the allowed folders, by name. Raises `RequestProblem` if no folder is allowed."""
    if not site.programs:
        raise RequestProblem(HTTPStatus.FORBIDDEN, OFF, _HOW)
    found = [_program(folder, file) for folder in map(Path, site.programs) for file in _files(folder)]
    return sorted(found, key=lambda each: (each.path.name, each.id))


def program(site: Site, id: str) -> OfferedProgram:
    """The program of this id. Raises `RequestProblem` if there is none, or if no folder is allowed."""
    for each in programs(site):
        if each.id == id:
            return each
    raise RequestProblem(HTTPStatus.NOT_FOUND, f"there is no program {id[:100]}", "see GET /jars")


def check(site: Site, order: StartOrder) -> RestoreCheck:
    """The verdict of `tidegate savepoint check`. Takes as long as the program needs up to its start. Raises
    `RequestProblem` for an order without a savepoint."""
    if order.savepoint is None:
        raise RequestProblem(HTTPStatus.BAD_REQUEST, "a check is about a savepoint: name one as savepointPath")
    restore = operate.Restore(
        order.savepoint, claim=order.claim, allow_non_restored_state=order.allow_non_restored_state
    )
    overrides = [f"checkpointing.dir={site.storage}", *_settings(order)]
    return operate.check_restore(
        order.program.path, order.arguments, overrides, restore, {}, inherited=environment_of_programs(os.environ)
    )


def start(site: Site, order: StartOrder) -> StartedJob:
    """Start a program; return once its job runs. Raises `RequestProblem` if the restore is impossible, if the job is
    refused or fails before it runs, and if other programs are being started."""
    if not _STARTS_AT_ONCE.acquire(blocking=False):
        raise RequestProblem(
            HTTPStatus.SERVICE_UNAVAILABLE, "other programs are being started", "wait until they run, then repeat it"
        )
    try:
        if order.savepoint is not None:
            _must_be_possible(check(site, order))
        return _started(site, order)
    finally:
        _STARTS_AT_ONCE.release()


def command(site: Site, order: StartOrder) -> list[str]:
    """The command that starts a program in the background."""
    words = module_command("tidegate.cli.main", "run", "-d", "--json", "--dir", str(site.storage))
    for setting in _settings(order):
        words += ["-D", setting]
    if order.savepoint is not None:
        words += ["-s", order.savepoint]
        words += ["-n"] if order.allow_non_restored_state else []
        words += ["--claim"] if order.claim else []
    return [*words, str(order.program.path), *order.arguments]


def environment_of_programs(mine: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program: that of the page, without what tidegate's processes hand on to each other, without
    the page's token, and without the settings of the page's own job."""
    return {name: value for name, value in mine.items() if not name.startswith(_OURS) or name == CONFIG_VARIABLE}


def problems_of(found: RestoreCheck) -> list[str]:
    """What prevents the restore, each with its next step."""
    return [f"{each.detail}; next: {each.next}" for each in found.problems]


def _must_be_possible(found: RestoreCheck) -> None:
    if found.problems:
        raise refusal(
            f"the program's job cannot be restored from the savepoint ({found.said.verdict}): "
            + "\n".join(problems_of(found)),
            "see `tidegate savepoint check`; nothing was started",
        )


def _started(site: Site, order: StartOrder) -> StartedJob:
    done = subprocess.run(
        command(site, order),
        env=environment_of_programs(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    try:
        started = parsed(done.stdout.encode(), StartedJob)
    except Unreadable:
        raise refusal(f"the program was not started: {done.stderr.strip()[-4_000:]}", "see the text") from None
    if started.exit:
        raise refusal(f"the job has ended: {started.text[-4_000:]}", f"see the log {started.log}")
    return started


def _settings(order: StartOrder) -> list[str]:
    return [] if order.parallelism is None else [f"parallelism={order.parallelism}"]


def _files(folder: Path) -> list[Path]:
    """The Python files directly in a folder. A link that leads out of it is left out."""
    try:
        found = [each for each in folder.iterdir() if each.suffix == _ENDING and not each.name.startswith(".")]
    except OSError:  # the folder is gone: it has no programs
        return []
    root = Folder.of(folder.resolve())
    return [each for each in found if each.is_file() and is_below(Folder.of(each.resolve()), root)]


def _program(folder: Path, file: Path) -> OfferedProgram:
    whose = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]
    return OfferedProgram(f"{whose}_{file.name}", file.resolve(), file.stat().st_mtime)
