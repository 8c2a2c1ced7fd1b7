"""Errors about requests to a job."""

from __future__ import annotations

from tidegate.core.errors import Code, TidegateError


def request_refused(expected: str, found: str, where: str, next_step: str) -> TidegateError:
    """The job, or its desk, does not carry out a request."""
    return TidegateError(Code.REQUEST_REFUSED, expected=expected, found=found, where=where, next_step=next_step)


def no_folder_for_it(found: str, where: str, next_step: str) -> TidegateError:
    """Neither the request nor the settings of the job name a folder for the savepoint."""
    return request_refused("a folder for the savepoint", found, where, next_step)
