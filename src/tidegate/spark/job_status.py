"""The state of a job, in figures."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.spark.figures import Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """The state of one query. Epochs are -1 if there was none; times are medians of this process's epochs.

    `rows`: rows that became visible, in all sinks. `shown_again`: rows that a sink without evidence may have shown
    twice, because an earlier call ended without an answer. `given_up`: rows that an at-most-once sink will never show.
    `dead_letters`: rows that a sink refused and that went to the query's sink of dead letters. `behind`: rows in its
    sources that are not done yet, None if no source can tell.
    """

    uid: str
    epoch: int
    finished: int
    epochs: int
    rows: int
    shown_again: int
    given_up: int
    dead_letters: int
    aborted: int
    redone: int
    epoch_ms: float | None
    commit_delay_ms: float | None
    behind: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The state of a job, with its queries in the order of the program."""

    name: str
    running: bool
    queries: tuple[QueryStatus, ...]


def status_of(uid: str, figures: Figures, behind: int | None) -> QueryStatus:
    """The state of a query with these figures."""
    epoch_ms, commit_delay_ms = figures.medians()
    return QueryStatus(
        uid=uid,
        epoch=figures.epoch,
        finished=figures.finished,
        epochs=figures.epochs,
        rows=figures.rows,
        shown_again=figures.shown_again,
        given_up=figures.given_up,
        dead_letters=figures.dead_letters,
        aborted=figures.aborted,
        redone=figures.redone,
        epoch_ms=epoch_ms,
        commit_delay_ms=commit_delay_ms,
        behind=behind,
    )
