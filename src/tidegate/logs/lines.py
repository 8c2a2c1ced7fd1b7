"""Formats a log record as one line: text for readers, JSON for programs. Secrets are hidden."""

from __future__ import annotations

import json
import logging
import math
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum

from tidegate.core.errors import TidegateError
from tidegate.core.redaction import SECRETS
from tidegate.core.telling import parts_of
from tidegate.logs.subject import OWN, subject

Plain = str | int | float | bool | None


class LogFormat(Enum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """The content of one record, without secrets. `fields`: the fields of the happening, by their names in the code."""

    at: datetime
    level: str
    logger: str
    job: Plain
    query: Plain
    run: Plain
    epoch: Plain
    event: Plain
    message: str
    fields: Mapping[str, Plain] = field(default_factory=dict[str, Plain])
    error: BaseException | None = None


def line_of(record: logging.LogRecord) -> LogLine:
    """The content of a record of any logger. If the record names no subject, the subject of this thread counts."""
    about = subject()
    given: Mapping[str, object] = getattr(record, "fields", None) or {}
    return LogLine(
        at=datetime.fromtimestamp(record.created, timezone.utc),
        level=record.levelname,
        logger=record.name,
        job=plain(getattr(record, "job", about.job)),
        query=plain(getattr(record, "query", about.query)),
        run=plain(getattr(record, "run", about.run)),
        epoch=plain(getattr(record, "epoch", about.epoch)),
        event=plain(getattr(record, "event", None)),
        message=SECRETS.hide(message_of(record)),
        fields={str(name): plain(value) for name, value in given.items()},
        error=record.exc_info[1] if record.exc_info else None,
    )


def message_of(record: logging.LogRecord) -> str:
    """The message of a record, even if its arguments do not match its text."""
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 (the text of an argument may raise anything: the line shows the unformatted message)
        return f"{record.msg} {record.args!r} ({type(error).__name__})"


def as_text(line: LogLine) -> str:
    """Format as text. Further lines are indented, so that no message can look like a separate line."""
    whose = "/".join(str(each) for each in (line.job, line.query) if each is not None)
    told = [
        whose,
        *(f"{name} {value}" for name, value in (("run", line.run), ("epoch", line.epoch)) if value is not None),
    ]
    words = [
        f"{line.at.astimezone():%Y-%m-%d %H:%M:%S}.{line.at.microsecond // 1000:03}",
        f"{line.level:<7}",
        *([f"[{' '.join(filter(None, told))}]"] if any(told) else []),
        *([] if line.logger == OWN else [f"{line.logger}:"]),
        *([] if line.event is None else [f"{line.event}:"]),
        line.message,
    ]
    text = " ".join(words)
    if line.error is not None:
        text = f"{text}\n{SECRETS.hide(_explained(line.error))}"
    return "\n    ".join(_visible(each) for each in text.splitlines())


def as_json(line: LogLine) -> str:
    """Format as one JSON object. Time is UTC; unknown values are null; the parts of an error are fields."""
    value: dict[str, object] = {
        "time": f"{line.at:%Y-%m-%dT%H:%M:%S}.{line.at.microsecond // 1000:03}Z",
        "level": line.level.lower(),
        "logger": line.logger,
        "job": line.job,
        "query": line.query,
        "run": line.run,
        "epoch": line.epoch,
        "event": line.event,
        "message": line.message,
    }
    if line.fields:
        value["fields"] = line.fields
    if line.error is not None:
        value.update(_parts(line.error), traceback=SECRETS.hide(_traceback(line.error)))
    return json.dumps(value)


FORMS = {LogFormat.TEXT: as_text, LogFormat.JSON: as_json}


def _parts(error: BaseException) -> dict[str, object]:
    told = parts_of(error) if isinstance(error, TidegateError) else {}
    return {"error": type(error).__name__, **told}


def _explained(error: BaseException) -> str:
    """The text of an error: a tidegate error without traceback, unless another error caused it."""
    whole = isinstance(error, TidegateError) and error.__cause__ is None
    return str(error) if whole else _traceback(error)


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip("\n")


def plain(value: object) -> Plain:
    """The value itself if JSON has its type; otherwise its text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return SECRETS.hide(str(value))


def _visible(text: str) -> str:
    """Write control characters as escapes: an external message must not move the cursor of the reader's terminal."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
