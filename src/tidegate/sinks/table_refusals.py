"""Errors that the sinks of a lake's tables share: of the table's place, of its partitions, of its writers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.refusals import not_on_a_cluster
from tidegate.sinks.staging import unwritable
from tidegate.storages.schemes import Folder, Scheme


def only_appended(uid: str, key: object) -> TidegateError:
    """The refusal of `key=`: this release replaces no row of a lake's table."""
    return TidegateError(
        Code.OPTION_UNKNOWN,
        expected="a sink without key=: it appends rows to a table, and replaces none",
        found=f"key={key!r}",
        where=f"sink {uid!r}",
        next_step="append every change, and take the newest row of each key in a view or by MERGE; or give these rows "
        "to DeltaSink, PostgresSink or SQLiteSink, which replace by key",
    )


def folder_violations(
    folder: Folder, schemes: Collection[Scheme], plan: SinkPlan, another: str, where: str
) -> Iterator[TidegateError]:
    """Violations of the folder of a table. `schemes`: where tables may be. `another`: how to choose another folder."""
    if folder.scheme not in schemes:
        yield TidegateError(
            Code.SINK_UNUSABLE,
            expected="a table on a local disk or on S3",
            found=f"one on `{folder.scheme.value}:`",
            where=where,
            next_step=f"give {another} on one of them",
        )
    elif folder.is_local:
        if not plan.local_master:
            yield not_on_a_cluster(where)
        if reason := unwritable(folder.local()):
            yield TidegateError(
                Code.SINK_UNUSABLE,
                expected="a folder that this user can write, for the table",
                found=reason,
                where=where,
                next_step=f"correct the rights of {folder} for this user, or give {another}",
            )


def other_partitions(wanted: Sequence[str], found: Sequence[str], another: str, where: str) -> TidegateError:
    """An existing table has other partitions. `another`: how to choose another table."""
    return TidegateError(
        Code.SCHEMA_MISMATCH,
        expected=f"a table that is partitioned by {list(wanted)}",
        found=f"one that is partitioned by {list(found)}",
        where=where,
        next_step=f"give partition_by={list(found)}, or {another}",
    )


def always_overtaken(tries: int, where: str) -> TidegateError:
    """A start could not make its table ready."""
    return TidegateError(
        Code.SINK_UNUSABLE,
        expected="a table that takes the columns of the rows",
        found=f"{tries} commits of other writers came first",
        where=where,
        next_step="start again",
    )
