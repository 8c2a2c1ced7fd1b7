"""Finds jobs by their application of YARN, also in the folders that the drivers of this user on YARN have noted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate.core.errors import Code, TidegateError
from tidegate.operate.client import JobClient, jobs, open
from tidegate.operate.noted_folders import home_here, noted_folders
from tidegate.operate.status import JobView
from tidegate.storages.schemes import Folder, Where

_JOB_ID = re.compile(r"[0-9a-f]{8}")
_SHOWN = 5


def open_anywhere(storage: Where, job: str, application: str = "") -> JobClient:
    """A job by its name or its id: the one in `storage`; else one in a folder that is noted.

    With an application of YARN it must run there, or have run there. A job of `storage` that runs in no application is
    taken if no other one is found. Without an application the folders that are noted are searched for an id alone: in
    each of them a job may have this name. Raises JOB_UNKNOWN, UID_INVALID.
    """
    search = _Search(job, application)
    try:
        here = open(storage, job)
        if not application or here.runs_on_yarn(application):
            return here
    except TidegateError as error:
        if error.catalogue_entry is not Code.JOB_UNKNOWN or not (application or _JOB_ID.fullmatch(job)):
            raise
        return search.only_one(error)
    return next(search.in_noted_folders(), here)


@dataclass(frozen=True, slots=True)
class JobsOnYarn:
    """The jobs of an application of YARN. `unread`: the folders that could not be read, in words."""

    jobs: tuple[JobView, ...]
    unread: tuple[str, ...]


def jobs_on_yarn(storage: Where, application: str) -> JobsOnYarn:
    """All jobs that run, or ran, in this application of YARN: in `storage`, and in the folders that are noted. A folder
    that cannot be read hides no other one."""
    found: list[JobView] = []
    unread: list[str] = []
    for folder in dict.fromkeys([Folder.of(storage), *_noted(unread)]):
        try:
            found += [each for each in jobs(folder) if each.beat is not None and each.beat.application == application]
        except TidegateError as error:
            unread.append(_unread(folder, error))
    return JobsOnYarn(tuple(found), tuple(unread))


@dataclass(frozen=True, slots=True)
class _Search:
    """What is looked for. `seen`: the folders that cannot be read, and jobs that run elsewhere."""

    job: str
    application: str
    seen: list[str] = field(default_factory=list[str])

    def only_one(self, unknown: TidegateError) -> JobClient:
        """The job in the folders that are noted. `unknown`: the error if they do not tell more."""
        found = list(self.in_noted_folders())
        if len(found) == 1 or (found and self.application):
            return found[0]
        home = _home(self.seen)
        if not self.application or (home is None and not self.seen):
            raise unknown
        raise TidegateError(
            Code.JOB_UNKNOWN,
            expected=f"a job {self.job} in the application {self.application} of YARN",
            found="; ".join([unknown.found, *self.seen[:_SHOWN]]),
            where=unknown.where if home is None else f"{unknown.where}, and the folders that {home} names",
            next_step="wait until its driver has begun, or name the folder of its checkpoints: --dir FOLDER",
        ) from unknown

    def in_noted_folders(self) -> Iterator[JobClient]:
        for folder in _noted(self.seen):
            try:
                client = open(folder, self.job)
                if client.runs_on_yarn(self.application) if self.application else client.name != self.job:
                    yield client
            except TidegateError as error:
                if error.catalogue_entry is not Code.JOB_UNKNOWN:
                    self.seen.append(_unread(folder, error))
                elif self.application in error.expected:
                    self.seen.append(error.found)


def _noted(seen: list[str]) -> list[Folder]:
    home = _home(seen)
    try:
        return [] if home is None else list(noted_folders(home))
    except TidegateError as error:
        seen.append(_unread(home, error))
        return []


def _unread(folder: Folder | None, error: TidegateError) -> str:
    return f"{folder} cannot be read: {error.code}"


def _home(seen: list[str]) -> Folder | None:
    """None also if Hadoop's configuration cannot be read, or names a file system without a storage of tidegate."""
    try:
        return home_here()
    except TidegateError as error:
        told = f"no notes: {error.where} ({error.found})"
        if told not in seen:
            seen.append(told)
        return None
