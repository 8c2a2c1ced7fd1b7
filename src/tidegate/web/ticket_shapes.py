"""The JSON of long actions: a request, its ticket, its answer."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tidegate.operate import SavepointFormat
from tidegate.web.shapes import Asks, Shape

TicketId = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]
"""An id that the caller may choose. The same id twice is the same request."""

FolderText = Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)]
"""A folder of savepoints, or a savepoint: a path or a URI."""

KindText = Literal[
    "checkpoint",
    "savepoint",
    "stop",
    "drain",
    "cancel",
    "stop-with-savepoint",
    "drain-with-savepoint",
    "cancel-with-savepoint",
]


class ActionAsked(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`into`: the folder for a savepoint; without it the job's own `savepoints.dir`. `id`: chosen by the caller, or by
    the server."""

    kind: KindText
    into: FolderText | None = None
    format: SavepointFormat = SavepointFormat.NATIVE
    id: TicketId | None = None


class ProgressShape(Shape, frozen=True, kw_only=True):
    """Bytes of a savepoint that are copied, of how many."""

    bytes: int
    of: int


class AnswerShape(Shape, frozen=True, kw_only=True):
    """What a request has come to. `epochs`: by query, the newest epoch that the answer covers."""

    outcome: str
    detail: str
    at: float
    epochs: dict[str, int]
    savepoint: str | None


class ActionTicket(Shape, frozen=True, kw_only=True):
    """A request to a job. `state`: "pending", "done", "refused", "failed" or "unknown". `stage` and `waits_for` are
    set while it is pending."""

    id: str
    kind: str
    state: str
    stage: str | None
    waits_for: str
    progress: ProgressShape | None
    answer: AnswerShape | None
