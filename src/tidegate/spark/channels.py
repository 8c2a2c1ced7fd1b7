"""The channels of a job: the queries that write them, and the sources that read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.channels.channel import Channel
from tidegate.core.errors import Code, TidegateError
from tidegate.spark.declared import DeclaredQuery
from tidegate.spark.sources.channel import ChannelSource
from tidegate.spark.sources.source import PositionedSource
from tidegate.spark.sources.value_formats import JSON


def declared_channel(channel: Channel, queries: Sequence[DeclaredQuery], where: str) -> ChannelSource:
    """What a query reads of a channel. A channel has the columns of the query that writes it, so that query comes
    first. So the graph of a job has no cycle. Raises CHANNEL_UNWRITTEN, and SOURCE_OPTION for a column that the channel
    cannot have.
    """
    for query in queries:
        if channel in _written_by(query):
            schema = query.rows.schema
            return ChannelSource(channel, JSON(schema).kind(where) if channel.holds_json else schema)
    raise TidegateError(
        Code.CHANNEL_UNWRITTEN,
        expected=f"a query that writes the channel {channel.uid}, declared before it is read",
        found="none",
        where=where,
        next_step=f"declare it first: job.query(uid, rows, sinks=[{channel.uid}])",
    )


def demand_bound(max_unread: int | None, where: str) -> None:
    """Raise SETTING_VALUE for a bound that no writer could keep."""
    if max_unread is not None and max_unread < 1:
        expected = "max_unread= of 1 row or more, or none"
        next_step = "leave it out, or give more rows than an epoch of the writer has"
        raise TidegateError(
            Code.SETTING_VALUE, expected=expected, found=str(max_unread), where=where, next_step=next_step
        )


def writers_of(sources: Iterable[PositionedSource | None], queries: Sequence[DeclaredQuery]) -> frozenset[str]:
    """The queries that write the channels among these sources."""
    read = [each.channel for each in sources if isinstance(each, ChannelSource)]
    return frozenset(query.uid for query in queries for channel in _written_by(query) if channel in read)


def _written_by(query: DeclaredQuery) -> list[Channel]:
    return [sink for sink in query.sinks if isinstance(sink, Channel)]
