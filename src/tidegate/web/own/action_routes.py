"""tidegate's own routes of actions, of savepoints, and of the check before a start."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.operate import SavepointDetails
from tidegate.web.flink import jars
from tidegate.web.flink.jar_shapes import CheckTicket, JarCheckAsked
from tidegate.web.own import actions, savepoints
from tidegate.web.routing import Access, Method, Route
from tidegate.web.savepoint_shapes import (
    DiffAsked,
    DiffShape,
    SavepointAsked,
    SavepointsAsked,
    SavepointsShape,
    VerifyAsked,
    VerifyTicket,
)
from tidegate.web.ticket_shapes import ActionAsked, ActionTicket

_ACCEPTED = 202

ACTIONS: Sequence[Route] = (
    Route(
        method=Method.POST,
        path="/jobs/{job}/actions",
        summary="Ask a job for a checkpoint, a savepoint, a stop, a drain or a cancel",
        access=Access.ACT,
        handler=actions.post_action,
        answers=ActionTicket,
        body=ActionAsked,
        status=_ACCEPTED,
    ),
    Route(
        method=Method.GET,
        path="/jobs/{job}/actions/{ticket}",
        summary="How an action goes",
        access=Access.READ,
        handler=actions.get_action,
        answers=ActionTicket,
    ),
    Route(
        method=Method.GET,
        path="/savepoints",
        summary="The savepoints of a folder, or of the folders of all jobs",
        access=Access.READ,
        handler=savepoints.get_savepoints,
        answers=SavepointsShape,
        query=SavepointsAsked,
    ),
    Route(
        method=Method.GET,
        path="/savepoints/details",
        summary="One savepoint: its queries, offsets, state and sinks",
        access=Access.READ,
        handler=savepoints.get_savepoint_details,
        answers=SavepointDetails,
        query=SavepointAsked,
    ),
    Route(
        method=Method.GET,
        path="/savepoints/diff",
        summary="What differs between two savepoints",
        access=Access.READ,
        handler=savepoints.get_savepoint_diff,
        answers=DiffShape,
        query=DiffAsked,
    ),
    Route(
        method=Method.POST,
        path="/savepoints/verify",
        summary="Read every file of a savepoint and compare it with the manifest",
        access=Access.ACT,
        handler=savepoints.post_verify,
        answers=VerifyTicket,
        body=VerifyAsked,
        status=_ACCEPTED,
    ),
    Route(
        method=Method.GET,
        path="/savepoints/verify/{ticket}",
        summary="How a verification goes",
        access=Access.READ,
        handler=savepoints.get_verify,
        answers=VerifyTicket,
    ),
    Route(
        method=Method.POST,
        path="/jars/{jar}/check",
        summary="Whether a program could be restored from a savepoint",
        access=Access.ACT,
        handler=jars.post_check,
        answers=CheckTicket,
        body=JarCheckAsked,
        status=_ACCEPTED,
    ),
    Route(
        method=Method.GET,
        path="/jars/{jar}/check/{ticket}",
        summary="The verdict of such a check",
        access=Access.READ,
        handler=jars.get_check,
        answers=CheckTicket,
    ),
)
