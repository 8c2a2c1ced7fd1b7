"""Any of Spark's streaming formats as a source of a job."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from tidegate.core.errors import raise_all
from tidegate.core.levels import Level
from tidegate.core.redaction import SECRETS, is_secret
from tidegate.sources.base import Absence, Begins, Replay, Source, Traits
from tidegate.spark.sources.formats import FORMATS
from tidegate.spark.sources.options import unknown_options
from tidegate.spark.sources.refusals import not_newest, not_replayable, refused_by_spark


class SparkSource(Source):
    """A streaming format of Spark, given by its name or by the class of a Python data source.

    `schema`: the columns of the rows, for a format that needs it. `replayable`: True promises that the format returns
    the same rows again for the same offsets. A class of your own declares its `traits` (`tidegate.source_api.Traits`)
    itself. All other keywords are options of the format.
    """

    def __init__(
        self,
        format: str | type[DataSource],
        *,
        schema: str | StructType | None = None,
        replayable: bool | None = None,
        **options: str | int | bool,
    ) -> None:
        self.data_source = None if isinstance(format, str) else format
        self.format = format if isinstance(format, str) else format.name()
        self.schema = schema
        self.options: Mapping[str, str | int | bool] = options
        self.declared = self._declared(replayable)
        """What is known of the format; None where it declares nothing."""

    def _declared(self, replayable: bool | None) -> Traits | None:
        known = FORMATS.get(self.format.lower())
        declared = getattr(self.data_source, "traits", None) if known is None else known.traits
        found = declared if isinstance(declared, Traits) else None
        if replayable is None:
            return found
        replay = Replay.EXACT if replayable else Replay.NONE
        return Traits(replay, *((Begins.OLDEST, Absence.KEPT) if found is None else (found.begins, found.absence)))

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        self._check(where, level)
        return self.read(session, where, self._begins_at_newest() if level is Level.AT_MOST_ONCE else {})

    def _check(self, where: str, level: Level) -> None:
        if level is Level.AT_MOST_ONCE:
            if self.declared is None or self.declared.begins is Begins.OLDEST:
                raise not_newest(self.format, where)
            begins = next((option for option in self.options if option.lower().startswith("starting")), None)
            if begins is not None and self._begins_at_newest():  # Spark looks at some of them before the option for it
                raise not_newest(f"format {self.format} with {begins}={self.options[begins]!r}", where)
        elif self.declared is None or self.declared.replay is not Replay.EXACT:
            raise not_replayable(f"format {self.format}", where, level)

    def _begins_at_newest(self) -> Mapping[str, str]:
        known = FORMATS.get(self.format.lower())
        return {} if known is None else known.newest

    def read(self, session: SparkSession, where: str, options: Mapping[str, str]) -> DataFrame:
        """The stream from Spark, with these additional options. Raises SOURCE_REFUSED and OPTION_UNKNOWN."""
        raise_all(list(unknown_options(session, self.format, self.options, where)), where)
        for name, value in self.options.items():
            if is_secret(name):
                SECRETS.add(str(value))
        if self.data_source is not None:
            session.dataSource.register(self.data_source)
        reader = session.readStream.format(self.format).options(**{**self.options, **options})
        try:
            return (reader if self.schema is None else reader.schema(self.schema)).load()
        except PySparkException as error:
            gone = error.getCondition() == "PATH_NOT_FOUND"
            mend = (
                "put back what the path names, or mend the path, then start again"
                if gone
                else "mend the source's path, schema= or options"
            )
            raise refused_by_spark(f"what Spark's format {self.format} needs", error, where, mend) from None


class RateSource(SparkSource):
    """Rows (timestamp, value) at a constant rate, for demos and tests."""

    def __init__(self, *, rows_per_second: int = 1, **options: str | int | bool) -> None:
        super().__init__("rate")
        self.options = {"rowsPerSecond": rows_per_second, **options}
