"""Savepoints in the folders that are served."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, cast

from tidegate import operate
from tidegate.core.errors import TidegateError
from tidegate.operate import SavepointDetails, Savepoints, Verified
from tidegate.web.places import allowed, savepoint_folders
from tidegate.web.problems import problem_of
from tidegate.web.routing import RouteRequest
from tidegate.web.savepoint_shapes import (
    DiffAsked,
    DifferenceShape,
    DiffShape,
    SavepointAsked,
    SavepointsAsked,
    SavepointsShape,
    VerifyAsked,
    VerifyTicket,
)
from tidegate.web.site import Site
from tidegate.web.works import PageWork

_VERIFY = "verify"


def get_savepoints(asked: RouteRequest) -> SavepointsShape:
    """`GET /savepoints`."""
    query: SavepointsAsked = asked.query
    site = asked.site
    folders = savepoint_folders(site) if query.dir is None else [query.dir]
    found = [_listed(site, allowed(site, each)) for each in folders]
    savepoints = [each for listed in found for each in listed.savepoints]
    return SavepointsShape(
        folders=tuple(each.folder for each in found),
        savepoints=tuple(sorted(savepoints, key=lambda each: each.at, reverse=True)),
        problems=tuple(problem_of(each) for listed in found for each in listed.problems),
    )


def get_savepoint_details(asked: RouteRequest) -> SavepointDetails:
    """`GET /savepoints/details`."""
    query: SavepointAsked = asked.query
    place = allowed(asked.site, query.path)
    return asked.site.watch.view(("savepoint", place), lambda: operate.inspect_savepoint(place), periods=2)


def get_savepoint_diff(asked: RouteRequest) -> DiffShape:
    """`GET /savepoints/diff`."""
    query: DiffAsked = asked.query
    one, other = allowed(asked.site, query.one), allowed(asked.site, query.other)
    found = asked.site.watch.view(("diff", one, other), lambda: operate.compare_savepoints(one, other), periods=2)
    return DiffShape(
        one=one,
        other=other,
        differences=tuple(
            DifferenceShape(what=each.what, one=_value(each.before), other=_value(each.after)) for each in found
        ),
    )


def post_verify(asked: RouteRequest) -> VerifyTicket:
    """`POST /savepoints/verify`."""
    body: VerifyAsked = asked.body
    place = allowed(asked.site, body.path)
    work = asked.site.works.begin(
        body.id or secrets.token_hex(16), (_VERIFY, place), lambda: operate.verify_savepoint(place)
    )
    return _ticket(work)


def get_verify(asked: RouteRequest) -> VerifyTicket:
    """`GET /savepoints/verify/:ticket`."""
    return _ticket(asked.site.works.known(asked.path["ticket"], _VERIFY))


def _listed(site: Site, folder: str) -> Savepoints:
    return site.watch.view(("savepoints", folder), lambda: operate.list_savepoints(folder), periods=5)


def _ticket(work: PageWork) -> VerifyTicket:
    path = str(work.object)
    if not work.result.done():
        return VerifyTicket(id=work.id, state="pending", path=path)
    error = work.result.exception()
    if isinstance(error, TidegateError):
        return VerifyTicket(id=work.id, state="failed", path=path, problems=(problem_of(error),))
    found: Verified = work.result.result()
    return VerifyTicket(
        id=work.id,
        state="done",
        path=path,
        whole=not found.problems,
        files=found.files,
        problems=tuple(problem_of(each) for each in found.problems),
    )


def _value(found: object) -> Any:
    """A value of a manifest, as JSON has it."""
    if isinstance(found, (list, tuple)):
        return [str(each) for each in cast("Sequence[object]", found)]
    return found if found is None or isinstance(found, (str, int, float, bool)) else str(found)
