"""Plain values as texts: what stands in CSV, SQLite's TEXT, raw messages, names of folders, and as a key in JSON.

| type | text |
|---|---|
| boolean | true, false |
| integers | -5 |
| float, double | the shortest text that is read back as the same number; NaN, Infinity, -Infinity |
| decimal | all decimal places, no exponent: 1.50 |
| string | itself |
| binary | base64 (RFC 4648, with padding) |
| date | 2026-01-31 |
| timestamp | 2026-01-31T23:59:59.000001Z, always in UTC and with microseconds |
| timestamp_ntz | 2026-01-31T23:59:59.000001 |
| time | 23:59:59.000001; with nine digits where six do not tell it |

Dates outside of the years 0 to 9999 have a sign and as many digits as they need, at least four: +10000-01-01,
-0001-12-31 (ISO 8601, and what Java and Spark write and read). Texts sort as the times do within these years only.

Everything is converted in Arrow and numpy: Python's datetime has the years 1 to 9999 only.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column

_compute = cast("Any", pc)

_DAY_MICROSECONDS = 86_400_000_000
_DAYS = (-719_528, 2_932_896)
"""0000-01-01 and 9999-12-31, in days from 1970-01-01: the dates with a year of four digits."""
_MOMENTS = (_DAYS[0] * _DAY_MICROSECONDS, (_DAYS[1] + 1) * _DAY_MICROSECONDS - 1)


def texts_of(column: Column) -> Column:
    """The values of a plain column as texts; nulls stay."""
    for fits, convert in _KINDS:
        if fits(column.type):
            return convert(column)
    return cast("Any", column).cast(pa.string())


def as_bytes(column: Column) -> list[bytes | None]:
    """Binary without conversion; all other types as their text in UTF-8."""
    texts = column if _is_binary(column.type) else texts_of(column)
    return texts.cast(pa.large_binary()).to_pylist()


def is_in_range(column: Column) -> bool:
    """True if all dates in the column are in the years 0 to 9999."""
    return _within(_days(column), _DAYS)


def all_finite(column: Column) -> bool:
    """True if no number in the column is NaN or infinite; nulls do not count."""
    return cast("bool | None", _compute.all(_compute.is_finite(column)).as_py()) is not False


def shortest(column: Column) -> Column:
    """A float as the double with the same shortest text: 0.1, and not 0.10000000149011612."""
    return column if pa.types.is_float64(column.type) else cast("Any", column).cast(pa.string()).cast(pa.float64())


def _numbers(column: Column) -> Column:
    text = cast("Any", column).cast(pa.string())
    if not all_finite(column):
        for found, told in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
            text = _compute.if_else(_compute.equal(text, found), told, text)
    return text


def _decimals(column: Column) -> Column:
    text = cast("Any", column).cast(pa.string())
    if not _compute.any(_compute.match_substring(text, "E")).as_py():
        return text
    values: list[Any] = column.to_pylist()  # near zero Arrow writes an exponent
    return pa.array([None if value is None else format(value, "f") for value in values], pa.string())


def _binaries(column: Column) -> Column:
    values: list[bytes | None] = column.to_pylist()
    return pa.array([None if value is None else base64.b64encode(value).decode() for value in values], pa.string())


def _dates(column: Column) -> Column:
    text = cast("Any", column).cast(pa.string())
    return text if is_in_range(column) else _mended(text, _days(column), _DAYS, _date)


def _days(column: Column) -> Column:
    return cast("Any", column).cast(pa.date32()).view(pa.int32())


def _timestamps(column: Column) -> Column:
    kind = cast("pa.TimestampType[Any, Any]", column.type)
    plain: Any = column.view(pa.timestamp(kind.unit)).cast(pa.timestamp("us"))
    text = _compute.replace_substring(plain.cast(pa.string()), " ", "T", max_replacements=1)
    numbers = plain.view(pa.int64())
    if not _within(numbers, _MOMENTS):
        text = _mended(text, numbers, _MOMENTS, _moment)
    return text if kind.tz is None else _compute.binary_join_element_wise(text, "Z", "")


def _times(column: Column) -> Column:
    text = cast("Any", column).cast(pa.time64("ns")).cast(pa.string())
    return _compute.replace_substring_regex(text, "000$", "")


def _within(numbers: Column, bounds: tuple[int, int]) -> bool:
    found = _compute.min_max(numbers)
    first, last = found["min"].as_py(), found["max"].as_py()
    return first is None or (bounds[0] <= first and last <= bounds[1])


def _mended(text: Column, numbers: Column, bounds: tuple[int, int], told: Callable[[int], str]) -> Column:
    """The texts, with those of `told` for numbers out of bounds."""
    pairs = zip(cast("list[str | None]", text.to_pylist()), cast("list[int | None]", numbers.to_pylist()), strict=True)
    first, last = bounds
    mended = [each if number is None or first <= number <= last else told(number) for each, number in pairs]
    return pa.array(mended, pa.string())


def _date(days: int) -> str:
    year, month, day = str(np.datetime64(days, "D")).rsplit("-", 2)
    number = int(year)
    return f"{'-' if number < 0 else '+'}{abs(number):04}-{month}-{day}"


def _moment(microseconds: int) -> str:
    days, rest = divmod(microseconds, _DAY_MICROSECONDS)
    seconds, fraction = divmod(rest, 1_000_000)
    return f"{_date(days)}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Column], Column]], ...] = (
    (pa.types.is_floating, _numbers),
    (pa.types.is_decimal, _decimals),
    (_is_binary, _binaries),
    (pa.types.is_date, _dates),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_time, _times),
)
"""The types that Arrow's own cast writes differently from the table."""
