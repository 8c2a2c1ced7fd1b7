"""The staging tables: one for each attempt that wrote a row, in the database of the target.

    _tidegate_stage_<owner>_g<generation>_e<epoch>_<token>

CREATE TABLE commits by itself in MySQL, so a stage comes first and its rows follow, in one transaction of their task. A
stage without all of its rows is named by no committable. It is an InnoDB table as any, so it is the journal of its
epoch. It is dropped after the epoch is finished, never by the commit, which DROP TABLE would end too early.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pymysql.err import MySQLError

from tidegate.core.records import Attempt, SinkIdentity
from tidegate.sinks.mysql.names import RESERVED, quoted
from tidegate.sinks.mysql.server import MySQLSession, run
from tidegate.sinks.mysql.shape import MySQLStageShape
from tidegate.sinks.mysql.table import ENGINE
from tidegate.sinks.mysql.words import LOCK_TIMEOUT, code_of

STAGE = f"{RESERVED}stage_"

_LOG = logging.getLogger("tidegate")
_NAME = re.compile(rf"{STAGE}([0-9a-f]{{16}})_g(\d+)_e(\d+)_([0-9a-f]{{12}})")
_COMMENT_AT_MOST = 1_000
"""Characters of a comment: the server has room for 2048."""


@dataclass(frozen=True, slots=True)
class MySQLStageName:
    """What the name of a stage tells."""

    owner: str
    generation: int
    epoch: int
    token: str

    @classmethod
    def new(cls, attempt: Attempt) -> MySQLStageName:
        """A new name each time: an attempt that is begun again never meets what it left before."""
        return cls(owner_of(attempt.sink), attempt.sink.generation, attempt.epoch, secrets.token_hex(6))

    @classmethod
    def parsed(cls, name: str) -> MySQLStageName | None:
        found = _NAME.fullmatch(name)
        return None if found is None else cls(found[1], int(found[2]), int(found[3]), found[4])

    def __str__(self) -> str:
        return f"{STAGE}{self.owner}_g{self.generation}_e{self.epoch}_{self.token}"


def owner_of(identity: SinkIdentity) -> str:
    """The part of a name that stands for job id, query and sink. A name of a table has only 64 characters."""
    whole = json.dumps([identity.job_id, identity.query, identity.sink])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def create_stage(connection: MySQLSession, stage: str, shape: MySQLStageShape, attempt: Attempt) -> None:
    """Create the stage of an attempt. It commits by itself."""
    comment = connection.escape(f"tidegate, rows that wait for their commit: {_told(attempt)}"[:_COMMENT_AT_MOST])
    run(connection, f"CREATE TABLE {quoted(stage)} ({shape.declared()}) ENGINE={ENGINE} COMMENT={comment}")


def _told(attempt: Attempt) -> str:
    sink = attempt.sink
    return (
        f"job {sink.job} ({sink.job_id}), query {sink.query}, sink {sink.sink}, epoch {attempt.epoch}, {attempt.name}"
    )


# --- what is there ------------------------------------------------------------------------------------------


def present(connection: MySQLSession, stages: Sequence[str]) -> set[str]:
    """Those of `stages` that exist."""
    places = ", ".join(["%s"] * len(stages))
    return {str(name) for (name,) in run(connection, f"{_TABLES} AND TABLE_NAME IN ({places})", stages)}


def drop_stages(connection: MySQLSession, identity: SinkIdentity, chosen: Callable[[MySQLStageName], bool]) -> int:
    """Drop the stages of a sink that are `chosen`. Returns their number.

    One that is locked (by a backup) stays: the next call comes to it again.
    """
    like = f"{STAGE}{owner_of(identity)}_".replace("_", r"\_") + "%"
    names = [str(name) for (name,) in run(connection, f"{_TABLES} AND TABLE_NAME LIKE %s", (like,))]
    run(connection, "SET SESSION lock_wait_timeout = 1")
    dropped = 0
    for name in names:
        parsed = MySQLStageName.parsed(name)
        if parsed is not None and parsed.owner == owner_of(identity) and chosen(parsed):
            dropped += _drop(connection, name)
    return dropped


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
