"""tidegate's own routes of actions, of savepoints, and of the check before a start."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.operate import SavepointDetails
from tidegate.web.flink import jars
from tidegate.web.flink.jar_shapes import CheckTicket, JarCheckAsked
from tidegate.web.own import actions, savepoints
from tidegate.web.routing import Route, begins, reads
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

ACTIONS: Sequence[Route] = (
    begins(
        "/jobs/{job}/actions",
        "Ask a job for a checkpoint, a savepoint, a stop, a drain or a cancel",
        actions.post_action,
        ActionTicket,
        ActionAsked,
    ),
    reads("/jobs/{job}/actions/{ticket}", "How an action goes", actions.get_action, ActionTicket),
    reads(
        "/savepoints",
        "The savepoints of a folder, or of the folders of all jobs",
        savepoints.get_savepoints,
        SavepointsShape,
        SavepointsAsked,
    ),
    reads(
        "/savepoints/details",
        "One savepoint: its queries, offsets, state and sinks",
        savepoints.get_savepoint_details,
        SavepointDetails,
        SavepointAsked,
    ),
    reads(
        "/savepoints/diff", "What differs between two savepoints", savepoints.get_savepoint_diff, DiffShape, DiffAsked
    ),
    begins(
        "/savepoints/verify",
        "Read every file of a savepoint and compare it with the manifest",
        savepoints.post_verify,
        VerifyTicket,
        VerifyAsked,
    ),
    reads("/savepoints/verify/{ticket}", "How a verification goes", savepoints.get_verify, VerifyTicket),
    begins(
        "/jars/{jar}/check",
        "Whether a program could be restored from a savepoint",
        jars.post_check,
        CheckTicket,
        JarCheckAsked,
    ),
    reads("/jars/{jar}/check/{ticket}", "The verdict of such a check", jars.get_check, CheckTicket),
)
