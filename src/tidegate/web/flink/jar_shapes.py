"""The JSON of Flink's jars: here, of Python programs."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tidegate.web.shapes import Asks, Problem, Shape
from tidegate.web.ticket_shapes import FolderText, TicketId

Parallelism = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
ArgumentText = Annotated[str, msgspec.Meta(max_length=20_000)]
ClaimMode = Literal["CLAIM", "NO_CLAIM"]


class JarEntry(Shape, frozen=True, kw_only=True):
    """An entry class. A Python program has none."""

    name: str
    description: str | None = None


class JarFile(Shape, frozen=True, kw_only=True):
    """A program. `uploaded`: its last change, in milliseconds since 1970."""

    id: str
    name: str
    uploaded: int
    entry: tuple[JarEntry, ...] = ()


class JarList(Shape, frozen=True, kw_only=True):
    """`/jars`. `address`: of this interface, as the client has called it."""

    address: str
    files: tuple[JarFile, ...]


class JarRunAsked(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a program is started. `programArgsList` goes before `programArgs`, which is split as a shell does.
    `restoreMode`: the older name of `claimMode`. `entryClass` is ignored, with a word."""

    entryClass: ArgumentText | None = None
    programArgs: ArgumentText | None = None
    programArgsList: list[ArgumentText] | None = None
    parallelism: Parallelism | None = None
    savepointPath: FolderText | None = None
    allowNonRestoredState: bool | None = None
    claimMode: ClaimMode | None = None
    restoreMode: ClaimMode | None = None


class JarRunQuery(
    Asks,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"entry_class": "entry-class", "program_args": "program-args"},
):
    """The same as parameters, as Flink's scripts give them. A field of the body counts before its parameter."""

    entry_class: ArgumentText | None = None
    program_args: ArgumentText | None = None
    programArg: ArgumentText | None = None
    parallelism: Parallelism | None = None
    savepointPath: FolderText | None = None
    allowNonRestoredState: bool | None = None
    claimMode: ClaimMode | None = None
    restoreMode: ClaimMode | None = None


class JarCheckAsked(JarRunAsked, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same start, which is only checked. `id`: chosen by the caller, or by the server."""

    id: TicketId | None = None


class JarRun(Shape, frozen=True, kw_only=True):
    """`/jars/:id/run`. `log` and `process`: of the job's supervisor. `notes`: what was ignored, and an error after
    which the job is being restarted."""

    jobid: str
    name: str
    process: int
    log: str
    notes: tuple[str, ...]


class CheckTicket(Shape, frozen=True, kw_only=True):
    """`state`: "pending", "done" or "failed". `verdict`: "ok", "migrate" or "impossible", with the changes, the reasons
    against a start, and the epoch after which each query would resume."""

    id: str
    state: str
    verdict: str | None = None
    changes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    epochs: dict[str, int] = {}
    problem: Problem | None = None
