"""How a job is, in figures."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.spark.figures import Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """How one query is. Epochs are -1 when there was none; times are medians of this process's epochs.

    `rows` are those that became visible, in all sinks; `given_up` those that an at-most-once sink will never show;
    `dead_letters` those that a sink could not hold, and that stand in the query's sink of dead letters;
    `behind` those that its sources have and that are not done yet, None where none of them can tell.
    """

    uid: str
    epoch: int
    finished: int
    epochs: int
    rows: int
    given_up: int
    dead_letters: int
    aborted: int
    redone: int
    epoch_ms: float | None
    commit_delay_ms: float | None
    behind: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """How a job is, by query in the order of the program."""

    name: str
    running: bool
    queries: tuple[QueryStatus, ...]


def status_of(uid: str, figures: Figures, behind: int | None) -> QueryStatus:
    """How the query with these figures is."""
    epoch_ms, commit_delay_ms = figures.medians()
    return QueryStatus(
        uid=uid,
        epoch=figures.epoch,
        finished=figures.finished,
        epochs=figures.epochs,
        rows=figures.rows,
        given_up=figures.given_up,
        dead_letters=figures.dead_letters,
        aborted=figures.aborted,
        redone=figures.redone,
        epoch_ms=epoch_ms,
        commit_delay_ms=commit_delay_ms,
        behind=behind,
    )
