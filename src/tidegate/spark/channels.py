"""The channels of a job: the queries that write them, and the sources that read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.channels.sink import ChannelSink
from tidegate.core.errors import Code, TidegateError
from tidegate.spark.declared import DeclaredQuery
from tidegate.spark.sources.channel import ChannelSource
from tidegate.spark.sources.source import PositionedSource


def declared_channel(channel: ChannelSink, queries: Sequence[DeclaredQuery], where: str) -> ChannelSource:
    """What a query reads of a channel. A channel has the columns of the query that writes it, so that query comes
    first. So the graph of a job has no cycle. Raises CHANNEL_UNWRITTEN.
    """
    for query in queries:
        if channel in query.sinks:
            return ChannelSource(channel, query.rows.schema)
    raise TidegateError(
        Code.CHANNEL_UNWRITTEN,
        expected=f"a query that writes the channel {channel.uid}, declared before it is read",
        found="none",
        where=where,
        next_step=f"declare it first: job.query(uid, rows, sinks=[{channel.uid}])",
    )


def writers_of(sources: Iterable[PositionedSource | None], queries: Sequence[DeclaredQuery]) -> frozenset[str]:
    """The queries that write the channels among these sources."""
    read = [each.sink for each in sources if isinstance(each, ChannelSource)]
    return frozenset(query.uid for query in queries for sink in query.sinks if sink in read)
