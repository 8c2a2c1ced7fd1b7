"""Errors as problem details (RFC 9457), with tidegate's codes. The status of each code is in one table."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import SECRETS
from tidegate.web.shapes import Problem

MEDIA_TYPE = "application/problem+json"

_STATUS: Mapping[Code, HTTPStatus] = {
    Code.JOB_UNKNOWN: HTTPStatus.NOT_FOUND,
    Code.FOLDER_UNKNOWN: HTTPStatus.NOT_FOUND,
    Code.UID_INVALID: HTTPStatus.BAD_REQUEST,
    Code.SETTING_VALUE: HTTPStatus.BAD_REQUEST,
    Code.REQUEST_REFUSED: HTTPStatus.CONFLICT,
    Code.STORAGE_UNUSABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Code.STORAGE_FULL: HTTPStatus.INSUFFICIENT_STORAGE,
}
"""The others are a conflict with how things stand: nothing was done, and the text says what to do."""


def problem_of(error: TidegateError) -> Problem:
    """The problem details of an error of tidegate, without secrets."""
    code, hide = error.catalogue_entry, SECRETS.hide
    return Problem(
        title=code.meaning,
        status=_STATUS.get(code, HTTPStatus.CONFLICT),
        detail=hide(f"expected {error.expected}; found {error.found}"),
        code=error.code,
        expected=hide(error.expected),
        found=hide(error.found),
        where=hide(error.where),
        next_step=hide(error.next_step),
        errors=(hide(str(error)),),
    )


def problem(status: HTTPStatus, detail: str, next_step: str = "") -> Problem:
    """Problem details of a request that no code of tidegate is about, without secrets."""
    shown = SECRETS.hide(detail)
    return Problem(title=status.phrase, status=status, detail=shown, next_step=SECRETS.hide(next_step), errors=(shown,))


class RequestProblem(Exception):
    """A request that is refused before it reaches a job."""

    def __init__(
        self, status: HTTPStatus, detail: str, next_step: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        self.problem = problem(status, detail, next_step)
        super().__init__(self.problem.detail)
        self.headers = headers


def as_response(found: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """The answer that carries the problem."""
    return Response(msgspec.json.encode(found), found.status, dict(headers or {}), MEDIA_TYPE)


def refusal(detail: str, next_step: str) -> RequestProblem:
    """The request does not fit how things stand: nothing was done."""
    return RequestProblem(HTTPStatus.CONFLICT, detail, next_step)
