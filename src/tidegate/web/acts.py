"""The log of actions: one line for each action that has come to its handler, carried out or refused, in the log of the
page's process. A request that the guard stops before (without a token, or from another origin) is no action, and no
line; a wrong token is one. Nothing is written to the folder of a job."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from starlette.responses import Response

from tidegate.core.redaction import HIDDEN, SECRETS
from tidegate.logs.writing import log_happening
from tidegate.web.routing import Route, RouteRequest

_SHOWN_CHARACTERS = 200
_FAILED = 500
_ID_FIELDS = ("request_id", "trigger_id", "id")
"""Where shapes have the id of a request, the most exact first."""
_WHAT_FIELDS: Mapping[str, Sequence[str]] = {
    "kind": ("kind", "mode"),
    "drain": ("drain",),
    "cancel": ("cancel_job",),
    "savepoint": ("savepoint_path", "savepointPath", "path"),
    "into": ("into", "target_directory", "targetDirectory"),
}
"""Where bodies and parameters have what an action is about, by its name in the log. The arguments of a program are not
among them: they may hold a secret in any form."""


@dataclass(frozen=True, slots=True)
class ActedOnPage:
    """An action came through the page or the REST interface. `what`: the program, the savepoint, its folder, the job
    that was started. `id`: that of the request, if it has one. `at`: when, in UTC: a program may have no logging of its
    own, and then Python prints only this text."""

    at: str
    caller: str
    action: str
    of: str
    what: str
    id: str
    status: int

    def __str__(self) -> str:
        of, id = (_named(name, value) for name, value in (("job", self.of), ("id", self.id)))
        about = "".join(f" {each}" for each in (of, self.what, id) if each)
        return f"{self.at} {self.action}{about} by {self.caller}: answered {self.status}"


@dataclass(frozen=True, slots=True)
class WrongToken:
    """A request to the page had a wrong token."""

    at: str
    caller: str

    def __str__(self) -> str:
        return f"{self.at} a wrong token from {self.caller}"


def log_act(route: Route, asked: RouteRequest, answer: object) -> None:
    """Log one action. `answer`: what its handler has returned; None if it has failed."""
    job, action = _cut(asked.path.get("job", "")), f"{route.method.value} {route.path}"
    acted = ActedOnPage(
        at=_now(),
        caller=asked.caller,
        action=action,
        of=job,
        what=_what(asked, answer),
        id=_id_of(asked, answer),
        status=_status(route, answer),
    )
    log_happening(logging.WARNING, acted, job=job or None)


def log_wrong_token(caller: str) -> None:
    """Log a request with a wrong token, without the token."""
    log_happening(logging.WARNING, WrongToken(_now(), caller))


def _status(route: Route, answer: object) -> int:
    match answer:
        case None:
            return _FAILED
        case Response():
            return answer.status_code
        case _:
            return route.status


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _id_of(asked: RouteRequest, answer: object) -> str:
    named = (getattr(shape, name, None) for name in _ID_FIELDS for shape in (answer, asked.body))
    return next((_cut(each) for each in named if isinstance(each, str) and each), "")


def _what(asked: RouteRequest, answer: object) -> str:
    """Without secrets, and in one line whatever the caller has sent."""
    found = {"program": asked.path.get("jar", "")}
    for name, fields in _WHAT_FIELDS.items():
        given = (getattr(shape, field, None) for field in fields for shape in (asked.body, asked.query))
        found[name] = next((str(each) for each in given if each), "")
    if hasattr(answer, "jobid"):
        found["started"] = str(getattr(answer, "name", ""))
    return " ".join(filter(None, (_named(name, _cut(SECRETS.hide(value))) for name, value in found.items())))


def _named(name: str, value: str) -> str:
    """A literal has no control character as it is."""
    return f"{name} {value!r}" if value else ""


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + HIDDEN
