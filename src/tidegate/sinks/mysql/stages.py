"""The staging tables: one for each attempt that wrote a row, in the database of the target.

    _tidegate_stage_<owner>_g<generation>_e<epoch>_<token>

CREATE TABLE commits by itself in MySQL, so a stage comes first and its rows follow, in one transaction of their task. A
stage without all of its rows is named by no committable. It is an InnoDB table as any, so it is the journal of its
epoch. It is dropped after the epoch is finished, never by the commit, which DROP TABLE would end too early.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pymysql.err import MySQLError

from tidegate.core.records import Attempt, SinkIdentity
from tidegate.sinks.mysql.names import quoted
from tidegate.sinks.mysql.server import MySQLSession, run
from tidegate.sinks.mysql.shape import MySQLStageShape
from tidegate.sinks.mysql.table import ENGINE
from tidegate.sinks.mysql.words import LOCK_TIMEOUT, code_of
from tidegate.sinks.stage_names import StageName, chosen_of, comment_of, pattern_of

_LOG = logging.getLogger("tidegate")
_WAIT_FOR_NO_LOCK = "SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1"
"""Seconds. Cleaning can wait for a later call, an epoch cannot: a branch that a dead attempt left prepared locks its
evidence.
"""
_COMMENT_AT_MOST = 1_000
"""Characters of a comment: the server has room for 2048."""


def create_stage(connection: MySQLSession, stage: str, shape: MySQLStageShape, attempt: Attempt) -> None:
    """Create the stage of an attempt. It commits by itself."""
    comment = connection.escape(comment_of(attempt)[:_COMMENT_AT_MOST])
    run(connection, f"CREATE TABLE {quoted(stage)} ({shape.declared()}) ENGINE={ENGINE} COMMENT={comment}")


# --- what is there ------------------------------------------------------------------------------------------


def present(connection: MySQLSession, stages: Sequence[str]) -> set[str]:
    """Those of `stages` that exist."""
    places = ", ".join(["%s"] * len(stages))
    return {str(name) for (name,) in run(connection, f"{_TABLES} AND TABLE_NAME IN ({places})", stages)}


def drop_stages(connection: MySQLSession, identity: SinkIdentity, chosen: Callable[[StageName], bool]) -> int:
    """Drop the stages of a sink that are `chosen`. Returns their number.

    One that is locked (by a backup) stays: the next call comes to it again. From now on the session waits for no lock.
    """
    names = [str(name) for (name,) in run(connection, f"{_TABLES} AND TABLE_NAME LIKE %s", (pattern_of(identity),))]
    run(connection, _WAIT_FOR_NO_LOCK)
    return sum(_drop(connection, name) for name in chosen_of(names, identity, chosen))


_TABLES = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"


def _drop(connection: MySQLSession, stage: str) -> int:
    try:
        run(connection, f"DROP TABLE IF EXISTS {quoted(stage)}")
    except MySQLError as error:
        if code_of(error) != LOCK_TIMEOUT:
            raise
        _LOG.info("staging table %s is locked by another transaction and stays for now", stage)
        return 0
    return 1
