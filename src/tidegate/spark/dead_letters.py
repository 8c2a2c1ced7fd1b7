"""Dead letters on the driver: the sink of a query that takes them, and their limit in an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from pyspark.sql import DataFrame

from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import Query
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.refusals import unfit_for_dead_letters
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.spark.parsing import has_unparsed
from tidegate.spark.projection import Projection
from tidegate.spark.writer import TaskResult

_REASONS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The uid of the sink that takes the dead letters of a query, and their limit in each epoch.

    `at_most`: rows (an int), a share of the epoch's rows (a float between 0 and 1), or None for no limit. `unparsed`:
    True if the query's rows include texts that did not parse.
    """

    sink: str
    at_most: int | float | None = None
    unparsed: bool = False

    def judge(self, query: Query, epoch: int, results: Sequence[TaskResult]) -> None:
        """Raise DEAD_LETTERS_LIMIT if an epoch has too many dead letters.

        Called before the epoch is prepared, so none of its rows become visible.
        """
        rows, dead = sum(each.rows for each in results), sum(each.dead for each in results)
        if self.at_most is None or dead <= (self.at_most * rows if isinstance(self.at_most, float) else self.at_most):
            return
        reasons = islice(chain.from_iterable(each.reasons for each in results), _REASONS_SHOWN)
        raise TidegateError(
            Code.DEAD_LETTERS_LIMIT,
            expected=f"at most {self._limit()} as dead letters in one epoch (max_dead={self.at_most})",
            found=f"{dead} of {rows} rows: {'; '.join(reasons)}",
            where=f"{query}, epoch {epoch}",
        )

    def _limit(self) -> str:
        return f"{self.at_most:.2%} of its rows" if isinstance(self.at_most, float) else f"{self.at_most} rows"


def checked_dead_letters(
    sink: TwoPhaseSink | None, at_most: float | None, rows: DataFrame, sinks: Sequence[TwoPhaseSink], where: str
) -> DeadLetters | None:
    """The arguments `dead_letters=` and `max_dead=` of a query, checked. Raises OPTION_UNKNOWN for invalid ones.

    Passes the table of dead letters to those of `sinks` with on_conflict="dead-letter".
    """
    unparsed = has_unparsed(rows, to_dead_letters=sink is not None, where=where)
    if sink is None:
        if at_most is not None:
            raise unfit_for_dead_letters("dead_letters=SINK beside max_dead=", f"max_dead={at_most!r} alone", where)
        return None
    if sink.select is not None or sink.where is not None:
        raise unfit_for_dead_letters(
            "a sink of dead letters without select= and where=: it gets all of them", "one that has", where
        )
    if at_most is not None:
        fits = 0 < at_most < 1 if isinstance(at_most, float) else type(at_most) is int and at_most >= 0
        if not fits:
            raise unfit_for_dead_letters(
                "max_dead as a number of rows, or a share between 0.0 and 1.0", repr(at_most), where
            )
    for each in sinks:
        if isinstance(each, SQLiteSink) and isinstance(sink, SQLiteSink) and each.path == sink.path and not sink.key:
            each.conflicts_into = sink.table
    return DeadLetters(sink.uid, at_most, unparsed)


def projection_of(sinks: Mapping[str, TwoPhaseSink], dead: DeadLetters | None) -> Projection:
    """The projection of a query with these sinks, by uid."""
    return Projection(sinks) if dead is None else Projection(sinks, dead.sink, unparsed=dead.unparsed)
