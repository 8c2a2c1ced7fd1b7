"""Errors about savepoints that several modules share."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.errors import Code, TidegateError

COPY_AGAIN = "copy the savepoint again from a complete copy, or take another one"
"""The next step for a savepoint whose files are damaged."""


def not_in_the_program(
    expected: str, found: str, where: str, missing: Sequence[str], new: Sequence[str]
) -> TidegateError:
    """Names of the savepoint are missing from the program. `new`: names that only the program has."""
    return TidegateError(
        Code.RESTORE_UNMATCHED,
        expected=expected,
        found=found,
        where=where,
        next_step=f"name what it is called now ({map_option(missing, new)}), or leave its state behind "
        "(--allow-non-restored-state)",
    )


def map_option(missing: Sequence[str], new: Sequence[str]) -> str:
    """The complete option, if one uid is missing and one is new; otherwise the reader must choose."""
    return f"--map {missing[0]}={new[0]}" if len(missing) == len(new) == 1 else "--map OLD=NEW"


def only_native(expected: str, found: str, where: str) -> TidegateError:
    """State that cannot be stored as rows."""
    return TidegateError(
        Code.SAVEPOINT_REFUSED,
        expected=expected,
        found=found,
        where=where,
        next_step="take a native savepoint (--type native); nothing of the job was changed",
    )


def of_channels(where: str) -> TidegateError:
    """A checkpoint of a job with channels that is no cut across them: an older release has written it."""
    return TidegateError(
        Code.SAVEPOINT_REFUSED,
        expected="a checkpoint that is one consistent cut across the channels of the job",
        found="the newest epoch of each query, which are no such cut",
        where=where,
        next_step="restore a savepoint; or start without one, which continues from the newest checkpoint",
    )


def of_rows_in_flight(where: str) -> TidegateError:
    """A checkpoint with rows in flight, for another job than its own."""
    return TidegateError(
        Code.SAVEPOINT_REFUSED,
        expected="a savepoint, or a checkpoint of the job itself",
        found="an unaligned checkpoint of another job or folder: the channels there have its rows in flight",
        where=where,
        next_step="restore it in its own job and folder, take a savepoint there, and restore that here",
    )


def not_at_its_end(expected: str, found: str, where: str, next_step: str = "") -> TidegateError:
    """A job that has ended in a way that allows no savepoint of its end. `next_step`: empty for a start of the job."""
    finish = "start the job, which finishes the decided epochs; then repeat the request with the same id"
    return TidegateError(
        Code.SAVEPOINT_REFUSED, expected=expected, found=found, where=where, next_step=next_step or finish
    )
