"""The sources of a job: ordinary streaming DataFrames, and which of them a query reads, in Spark's order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, cast

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidegate.checkpoints.tempo import Tempo
from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.core.levels import Level
from tidegate.core.redaction import SECRETS, is_secret
from tidegate.savepoints.ingest_restore import JoinedLog, SavedLog
from tidegate.spark.companions import Companion
from tidegate.spark.graft import graft
from tidegate.spark.sources.options import unknown_options

FILE_FORMATS = frozenset({"parquet", "json", "csv", "text", "orc"})
REPLAYABLE_FORMATS = FILE_FORMATS | {"rate", "rate-micro-batch", "delta", "iceberg", "kafka"}
"""Formats that give the same rows again for the same offsets."""

NEWEST_FORMATS: Mapping[str, Mapping[str, str]] = {"rate": {}, "socket": {}, "kafka": {"startingOffsets": "latest"}}
"""Formats that can begin at their newest input, and the options that make them."""


class Source(Protocol):
    """Something that `Job.source` can read."""

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        """The streaming DataFrame for a job of this level; `where` names the source in errors."""
        ...


class Monitor(Protocol):
    """Is told how far a source is, for those who only watch. It never raises, and holds nothing up."""

    def tell(self, position: str) -> None:
        """Everything up to this position is done."""
        ...

    def behind(self) -> int | None:
        """Rows that are there and not done yet; None while nobody can tell."""
        ...

    def close(self) -> None:
        """The query has ended; there is little time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What one start of a job gives a source of tidegate's own.

    `session`: the job's. `folder`: its own in the job's folder. `readers`: the names under which `monitor` will be
    asked, one by query. `retained`: the done epochs of a query that can be gone back to. `epochs_kept`: of how many
    epochs a query's files stay. `bounded`: the job ends when it has caught up. `oldest`: by reader, where the sources
    of its query stand in the job's oldest retained checkpoint. `saved`: what a savepoint holds of an ingest log that
    the source resumes from.
    """

    session: SparkSession
    folder: Path
    where: str
    readers: frozenset[str]
    retained: int
    epochs_kept: int
    bounded: bool
    oldest: Callable[[], Mapping[str, Sequence[str | None]]]
    saved: SavedLog | None = None


class OpenedSource(ABC):
    """A source of tidegate's own during one start of its job, whose locks are held."""

    @abstractmethod
    def begin(self, where: str, level: Level) -> str:
        """Where a query begins that has no *start* yet. Asks the outside world; the answer never moves again."""

    def compare(self, where: str, reached: str) -> None:
        """Raise when this is not the source in which a checkpoint has reached that position. Called before anything
        is taken in: what came meanwhile could stand where the checkpoint means other rows."""

    @abstractmethod
    def bound(self, session: SparkSession, where: str, position: str, tempo: Tempo, reader: str) -> DataFrame:
        """The stream for one query, with the columns of `load`, that begins at what *start* says. `reader` is the name
        of the query's reading, as for `monitor`."""

    @abstractmethod
    def monitor(self, name: str) -> Monitor | None:
        """What is told when an epoch is done; `name` is that of the job, the query and the source."""

    def verify(self, reader: str) -> None:
        """Behind the tasks of an epoch of a reading, before the epoch is prepared: raise when the tasks have not read
        what the epoch has."""

    def companion(self) -> Companion | None:
        """What goes along with the job."""
        return None

    def joined(self) -> JoinedLog | None:
        """The ingest log that a restore resumes from, of a source that was only looked at."""
        return None

    def end_input(self) -> None:
        """Every query has ended: nothing more is taken in."""

    def close(self) -> None:
        """The job has ended, or did not start; its locks are still held."""


ResultT = TypeVar("ResultT")


def verified(verify: Callable[[], None], compute: Callable[[], ResultT]) -> ResultT:
    """What `compute` gives, if it has read what the epoch has. Where it fails, `verify` may say better why."""
    try:
        found = compute()
    except BaseException:
        verify()
        raise
    verify()
    return found


class PositionedSource(ABC):
    """A source of tidegate's own: *start* records the position where it begins, before Spark starts the query."""

    writes: ClassVar[bool] = False
    """Whether opening it writes into the job's folder, which a mere check must not."""

    @abstractmethod
    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        """As `Source.load`: what the program builds its queries on. No query reads it as it is: see `bound`."""

    def recall(self, position: str) -> None:
        """Before `load`: what the newest *start* of the job says of this source."""

    @abstractmethod
    def opened(self, ground: Ground) -> OpenedSource:
        """What answers for this source during one start of a job."""

    def looked_at(self, ground: Ground) -> OpenedSource:
        """What answers for it while a restore is judged. Writes nothing."""
        return self.opened(ground)


class SparkSource:
    """Any of Spark's streaming formats. `replayable=True` vouches for a format that tidegate does not know."""

    def __init__(
        self,
        format: str,
        *,
        schema: str | StructType | None = None,
        replayable: bool | None = None,
        **options: str | int | bool,
    ) -> None:
        self.format = format
        self.schema = schema
        self.replayable = replayable
        self.options: Mapping[str, str | int | bool] = options

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        self._check(where, level)
        return self.read(session, where, self._begins_at_newest() if level is Level.AT_MOST_ONCE else {})

    def _check(self, where: str, level: Level) -> None:
        name = self.format.lower()
        if level is Level.AT_MOST_ONCE:
            if name not in NEWEST_FORMATS:
                raise not_newest(self.format, where)
            begins = next((option for option in self.options if option.lower().startswith("starting")), None)
            if begins is not None and name == "kafka":  # Spark looks at some of them before startingOffsets
                raise not_newest(f"format {self.format} with {begins}={self.options[begins]!r}", where)
        elif not (name in REPLAYABLE_FORMATS if self.replayable is None else self.replayable):
            raise not_replayable(f"format {self.format}", where, level)

    def _begins_at_newest(self) -> Mapping[str, str]:
        return NEWEST_FORMATS[self.format.lower()]

    def read(self, session: SparkSession, where: str, options: Mapping[str, str]) -> DataFrame:
        """The stream as Spark gives it, with these options on top. Raises SOURCE_REFUSED and OPTION_UNKNOWN."""
        raise_all(list(unknown_options(session, self.format, self.options, where)), where)
        for name, value in self.options.items():
            if is_secret(name):
                SECRETS.add(str(value))
        reader = session.readStream.format(self.format).options(**{**self.options, **options})
        try:
            return (reader if self.schema is None else reader.schema(self.schema)).load()
        except PySparkException as error:
            gone = error.getCondition() == "PATH_NOT_FOUND"
            raise TidegateError(
                Code.SOURCE_REFUSED,
                expected=f"what Spark's format {self.format} needs",
                found=str(error).split("\n")[0],
                where=where,
                next_step="put back what the path names, or mend the path, then start again"
                if gone
                else "mend the source's path, schema= or options",
            ) from None


class RateSource(SparkSource):
    """Rows (timestamp, value) at a steady rate, for demos and tests."""

    def __init__(self, *, rows_per_second: int = 1, **options: str | int | bool) -> None:
        super().__init__("rate")
        self.options = {"rowsPerSecond": rows_per_second, **options}


class SourceRegistry:
    """Which uid stands behind each stream of a plan; Spark's offsets go by position, so the order counts."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._uids: dict[int, str] = {}
        # Identities are those of living JVM objects: keep them alive.
        self._alive: list[Any] = []

    def add(self, uid: str, rows: DataFrame, where: str) -> None:
        """Know the stream behind `rows` as `uid`. Refuses what is not one stream."""
        streams = _streams(rows)
        if len(streams) != 1:
            raise TidegateError(
                Code.QUERY_NOT_STREAMING,
                expected="a DataFrame that reads one stream",
                found=f"one that reads {len(streams)}",
                where=where,
                next_step="register each stream by itself with job.source(uid, ...), then join or union them",
            )
        self._alive.append(streams[0])
        self._uids[self._identity(streams[0])] = uid

    def uids_of(self, rows: DataFrame, where: str) -> tuple[str, ...]:
        """The uids of the streams that a query reads, by Spark's position."""
        streams = _streams(rows)
        uids = [self._uids.get(self._identity(stream)) for stream in streams]
        if not uids or None in uids:
            raise TidegateError(
                Code.SOURCE_UNKNOWN if uids else Code.QUERY_NOT_STREAMING,
                expected="a streaming DataFrame made from job.source(...)",
                found="a stream that is no source of the job" if uids else "a DataFrame that is not streaming",
                where=where,
                next_step='wrap the stream: rows = job.source("uid", stream)',
            )
        return tuple(uid for uid in uids if uid is not None)

    def put_in_place(self, rows: DataFrame, streams: Mapping[str, DataFrame]) -> DataFrame:
        """`rows` reading, for each uid of `streams`, that stream instead of the one that is known by it."""

        def stream_for(leaf: Any) -> DataFrame | None:
            uid = self._uids.get(self._identity(_stream(leaf))) if _is_stream(leaf) else None
            return None if uid is None else streams.get(uid)

        return graft(self._session, rows, stream_for) if streams else rows

    def _identity(self, stream: Any) -> int:
        jvm: Any = self._session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
        return jvm.java.lang.System.identityHashCode(stream)


def vouch_for(rows: DataFrame, where: str, level: Level) -> None:
    """Refuse a stream of the user's own whose format is not known to give what the level needs."""
    names = [str(leaf.sourceName()).lower() for leaf in _stream_leaves(rows)]
    if level is Level.AT_MOST_ONCE:
        for name in (name for name in names if name not in _NEWEST_AS_THEY_ARE):
            raise not_newest(name, where)
    elif not all(name in REPLAYABLE_FORMATS or name.startswith("filesource[") for name in names):
        raise not_replayable(", ".join(names), where, level)


def reads_files(rows: DataFrame) -> tuple[bool, ...]:
    """Of each stream of a plan, by Spark's position, whether it is Spark's file source."""
    return tuple(str(leaf.sourceName()).lower().startswith("filesource[") for leaf in _stream_leaves(rows))


def keeps_nothing(rows: DataFrame) -> bool:
    """Whether the stream has rows that nobody keeps: what arrives while no job reads it is lost."""
    return any(str(leaf.sourceName()).lower().endswith(_KEEP_NOTHING) for leaf in _stream_leaves(rows))


_KEEP_NOTHING = ("socket", "textsocketsourceprovider")

_NEWEST_AS_THEY_ARE = frozenset(name for name, options in NEWEST_FORMATS.items() if not options)


def not_replayable(found: str, where: str, level: Level) -> TidegateError:
    """A source whose rows cannot be read again, in a job that has to."""
    return TidegateError(
        Code.SOURCE_NOT_REPLAYABLE,
        expected=f"one of {', '.join(sorted(REPLAYABLE_FORMATS))}, or SparkSource(format, replayable=True)",
        found=f"{found}, in a job that is {level.value}",
        where=where,
        next_step="read it through a log that keeps rows (a socket: SocketSource(host, port, durable=True)); pass"
        " replayable=True if it gives the same rows again for the same offsets; or set checkpointing.mode to"
        " at-most-once",
    )


def not_newest(found: str, where: str) -> TidegateError:
    """A source that cannot begin at its newest input, in an at-most-once job."""
    return TidegateError(
        Code.SOURCE_NOT_NEWEST,
        expected=f"one of {', '.join(sorted(NEWEST_FORMATS))}, or FileSource(...)",
        found=found,
        where=where,
        next_step="use one of these, or another checkpointing.mode",
    )


def _streams(rows: DataFrame) -> list[Any]:
    """The JVM object behind each stream of the plan; it is the same in every DataFrame made from the stream."""
    return [_stream(leaf) for leaf in _stream_leaves(rows)]


def _stream(leaf: Any) -> Any:
    return leaf.table() if leaf.getClass().getSimpleName() == "StreamingRelationV2" else leaf.dataSource()


def _is_stream(leaf: Any) -> bool:
    return leaf.getClass().getSimpleName().startswith("StreamingRelation")


def _stream_leaves(rows: DataFrame) -> list[Any]:
    frame = cast("Any", rows._jdf)  # pyright: ignore[reportPrivateUsage]
    leaves = frame.queryExecution().analyzed().collectLeaves()
    found = [leaves.apply(index) for index in range(leaves.size())]
    return [leaf for leaf in found if _is_stream(leaf)]
