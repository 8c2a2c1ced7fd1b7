"""Arrow's schema for rows of Spark."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema of rows that are kept or read outside of a session: timestamps are in UTC, whatever its time zone."""
    return to_arrow_schema(schema, timezone="UTC")
