"""The JSON of savepoints: a list, one in detail, what differs between two, and whether one is whole."""

from __future__ import annotations

from tidegate.operate import SavepointView
from tidegate.web.shapes import Asks, Problem, Shape
from tidegate.web.ticket_shapes import FolderText, TicketId


class SavepointsAsked(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`dir`: the folder; without it the `savepoints.dir` of every job of the storage."""

    dir: FolderText | None = None


class SavepointAsked(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`path`: the savepoint's folder."""

    path: FolderText


class DiffAsked(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The folders of two savepoints."""

    one: FolderText
    other: FolderText


class VerifyAsked(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`path`: the savepoint's folder. `id`: chosen by the caller, or by the server."""

    path: FolderText
    id: TicketId | None = None


class SavepointsShape(Shape, frozen=True, kw_only=True):
    """Savepoints, the newest first, and why others cannot be read. `folders`: where they were looked for."""

    folders: tuple[str, ...]
    savepoints: tuple[SavepointView, ...]
    problems: tuple[Problem, ...]


class DifferenceShape(Shape, frozen=True, kw_only=True):
    """A value that differs. `what`: its names, from the whole to the part. Null: a savepoint has no such value."""

    what: tuple[str, ...]
    one: str | int | float | bool | list[str] | None
    other: str | int | float | bool | list[str] | None


class DiffShape(Shape, frozen=True, kw_only=True):
    """What differs between two savepoints."""

    one: str
    other: str
    differences: tuple[DifferenceShape, ...]


class VerifyTicket(Shape, frozen=True, kw_only=True):
    """`state`: "pending", "done" (see `whole`) or "failed"."""

    id: str
    state: str
    path: str
    whole: bool | None = None
    files: int | None = None
    problems: tuple[Problem, ...] = ()
