"""The log of actions: one line for each action that the page's server has carried out or refused, in the log of its
process. Nothing is written to the folder of a job."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timezone

from starlette.responses import Response

from tidegate.core.redaction import HIDDEN
from tidegate.logs.writing import log_happening
from tidegate.web.routing import Route, RouteRequest

_SHOWN_CHARACTERS = 200
_FAILED = 500
_ID_FIELDS = ("request_id", "trigger_id", "id")
"""Where shapes have the id of a request, the most exact first."""


@dataclass(frozen=True, slots=True)
class ActedOnPage:
    """An action came through the page or the REST interface. `id`: that of the request, if it has one. `at`: when,
    in UTC: a program may have no logging of its own, and then Python prints only this text."""

    at: str
    caller: str
    action: str
    of: str
    id: str
    status: int

    def __str__(self) -> str:
        about = "".join(f" {name} {value!r}" for name, value in (("job", self.of), ("id", self.id)) if value)
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
    acted = ActedOnPage(_now(), asked.caller, action, job, _id_of(asked, answer), _status(route, answer))
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


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + HIDDEN
