"""What a channel over Kafka refuses: a topic that does not keep its rows, and values that its readers cannot read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.errors import Code, TidegateError
from tidegate.kafka.brokers import settings_of
from tidegate.kafka.cluster import Reaching
from tidegate.sinks.arrow import columns_of
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.kafka.wires import reached
from tidegate.sinks.nested import leaves_of
from tidegate.sinks.row_values import rows_where
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.value_texts import texts_of

_compute = cast("Any", pc)
_POLICY, _KEPT_MS = "cleanup.policy", "retention.ms"
_KEPT_AT_LEAST_SECONDS = 3600.0
_INTERVALS_AT_LEAST = 10
_FOR_EVER = -1
_MICROS_OF_A_DAY = 86_400_000_000
_YEAR_0 = date(1, 1, 1).toordinal() - 366 - date(1970, 1, 1).toordinal()
_YEAR_10000 = date(9999, 12, 31).toordinal() + 1 - date(1970, 1, 1).toordinal()
"""Days since 1970. The year 0000 is a leap year."""


def kept_too_short(sink: Reaching, topic: str, plan: SinkPlan) -> list[TidegateError]:
    """Why the topic would remove rows that a reader or a checkpoint still needs. Empty if this user may not see its
    settings: DESCRIBE_CONFIGS.
    """
    with reached(sink) as wire:
        found = settings_of(wire, topic, [_POLICY, _KEPT_MS])
    where, needed = f"channel {sink.uid!r}", max(_KEPT_AT_LEAST_SECONDS, _INTERVALS_AT_LEAST * plan.interval_seconds)
    errors: list[TidegateError] = []
    if "compact" in found.get(_POLICY, ""):
        errors.append(
            TidegateError(
                Code.SINK_UNUSABLE,
                expected=f"topic {topic!r} with {_POLICY}=delete: a channel keeps each row until its readers have it",
                found=f"{_POLICY}={found[_POLICY]}",
                where=where,
                next_step=f"set {_POLICY} of {topic!r} to delete (kafka-configs), or name another topic",
            )
        )
    kept_ms = int(found.get(_KEPT_MS, _FOR_EVER))
    if _FOR_EVER < kept_ms < needed * 1000:
        errors.append(
            TidegateError(
                Code.SINK_UNUSABLE,
                expected=f"topic {topic!r} with {_KEPT_MS} of {needed * 1000:.0f} or more: an hour, and"
                f" {_INTERVALS_AT_LEAST} times checkpointing.interval",
                found=f"{_KEPT_MS}={kept_ms}",
                where=where,
                next_step=f"raise {_KEPT_MS} of {topic!r} (kafka-configs), to more than a reader may be away; -1 is"
                " for ever",
            )
        )
    return errors


def refused_values(batch: pa.RecordBatch) -> Iterator[RowRefused]:
    """A refusal for every value that the readers cannot parse: NaN and infinities, which JSON does not have, and dates
    and timestamps whose year does not have four digits. A record with one would stop every reader for good.
    """
    for name, column in zip(batch.schema.names, columns_of(batch), strict=True):
        for leaf in leaves_of(column, name):
            kind = leaf.values.type
            if pa.types.is_floating(kind):
                fits, wanted = _compute.is_finite(leaf.values), "a finite number"
            elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
                fits, wanted = _has_four_digits(leaf.values), "a year of four digits, 0000 to 9999,"
            else:
                continue
            rows = leaf.rows()
            for place in rows_where(_compute.invert(fits)):
                yield RowRefused(
                    row=int(rows[place]),
                    column=name,
                    expected=f"{wanted} in {leaf.path!r}, or a null",
                    found=str(texts_of(leaf.values.slice(place, 1))[0].as_py()),
                    next_step="give it another value with F.nanvl or F.when before the query writes it; or use an"
                    " embedded channel, which keeps such values",
                )


def _has_four_digits(values: Any) -> Any:
    """A mask, null for a null."""
    is_date = pa.types.is_date(values.type)
    days_or_micros = values.cast(pa.int32() if is_date else pa.int64())
    scale = 1 if is_date else _MICROS_OF_A_DAY
    first, end = _YEAR_0 * scale, _YEAR_10000 * scale
    return _compute.and_(_compute.greater_equal(days_or_micros, first), _compute.less(days_or_micros, end))
