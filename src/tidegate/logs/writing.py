"""Writes logs: everything goes to Python's logging, under one name and with its subject.

A program that runs by itself configures Python's logging, and tidegate adds no handler. Under `tidegate run`, tidegate
writes every log line of the process in the requested format.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from types import TracebackType
from typing import TypeVar

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import SECRETS
from tidegate.logs.lines import FORMS, LogFormat, line_of, message_of, plain
from tidegate.logs.subject import OWN, subject

_LOG = logging.getLogger(OWN)

SUPERVISED = "TIDEGATE_SUPERVISED"
"""The environment variable with the number of the driver's end of the line."""
FORMAT_VARIABLE = "TIDEGATE_LOG_FORMAT"
LEVEL_VARIABLE = "TIDEGATE_LOG_LEVEL"


class LogLevel(Enum):
    """The lowest level that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class LogChoice:
    """The log options of `tidegate run`. By default warnings are shown, as Python does."""

    format: LogFormat = LogFormat.TEXT
    level: LogLevel = LogLevel.WARNING

    def environment(self) -> dict[str, str]:
        """The choice as environment variables for the processes of the job."""
        return {FORMAT_VARIABLE: self.format.value, LEVEL_VARIABLE: self.level.value}

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> LogChoice:
        """The choice from the environment variables. Raises SETTING_VALUE."""
        default = cls()
        return cls(
            format=_read(environment, FORMAT_VARIABLE, default.format),
            level=_read(environment, LEVEL_VARIABLE, default.level),
        )


def set_up(choice: LogChoice, environment: Mapping[str, str]) -> None:
    """Write every log line of this process to its standard error, as chosen; also warnings and uncaught errors.

    A program that configures logging later (`basicConfig(force=True)`, `dictConfig`) replaces this.
    """
    SECRETS.add_environment(environment)
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each, _Written)]:
        root.removeHandler(old)
    root.addHandler(_Written(choice.format))
    root.setLevel(choice.level.name)
    for noisy in ("py4j", "kafka"):  # they log every call, and the request of a login with its password
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


def set_up_below_run(environment: Mapping[str, str]) -> None:
    """The same for processes below `tidegate run`; no other process is changed."""
    if SUPERVISED in environment and not any(isinstance(each, _Written) for each in logging.getLogger().handlers):
        set_up(LogChoice.of(environment), environment)


def log_failure(error: BaseException) -> None:
    """Log one line for the error that ended the program, with all its parts."""
    _LOG.error("the program has failed", exc_info=error, extra={"event": "Failed"})


def log_happening(level: int, happening: object, **whose: object) -> None:
    """Log one line for a happening: its type is the event's name, its parts are the fields."""
    if not _LOG.isEnabledFor(level):
        return
    parts: dict[str, object] = {}
    if is_dataclass(happening):
        parts = {each.name: getattr(happening, each.name) for each in fields(happening) if each.repr}
    known = {name: parts[name] for name in ("epoch",) if name in parts}
    extra = {**whose, **known, "event": type(happening).__name__, "fields": parts}
    _LOG.log(level, "%s", happening, extra=extra)


class _Written(logging.Handler):
    """Writes to the standard error that is set at that moment."""

    def __init__(self, format: LogFormat) -> None:
        super().__init__()
        self._form = FORMS[format]

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self._form(line_of(record)) + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (Python's name)
        """The reader of the standard error has closed it: the error cannot be reported."""


class _RecordFilter(logging.Filter):
    """Adds the subject to the records of tidegate and hides secrets, for all handlers of a program."""

    def filter(self, record: logging.LogRecord) -> bool:
        about = subject()
        for name in ("job", "query", "run", "epoch"):
            record.__dict__.setdefault(name, getattr(about, name))
        record.__dict__.setdefault("event", None)
        given: Mapping[str, object] = record.__dict__.get("fields") or {}
        record.__dict__["fields"] = {name: plain(value) for name, value in given.items()}
        message = message_of(record)
        shown = SECRETS.hide(message)
        if shown != message:
            record.msg, record.args = shown, None
        return True


if not any(isinstance(each, _RecordFilter) for each in _LOG.filters):
    _LOG.addFilter(_RecordFilter())


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
    else:
        log_failure(error)


def _uncaught_in_thread(told: threading.ExceptHookArgs) -> None:
    if told.exc_value is not None and not isinstance(told.exc_value, SystemExit):
        name = "a thread" if told.thread is None else f"thread {told.thread.name}"
        _LOG.error("%s has failed", name, exc_info=told.exc_value, extra={"event": "ThreadFailed"})


ChoiceT = TypeVar("ChoiceT", bound=Enum)


def _read(environment: Mapping[str, str], variable: str, default: ChoiceT) -> ChoiceT:
    text = environment.get(variable, "").strip().lower()
    choices = {str(each.value): each for each in type(default)}
    if text and text not in choices:
        raise TidegateError(
            Code.SETTING_VALUE,
            expected=f"{variable} = one of {', '.join(choices)}",
            found=repr(text),
            where="the environment",
            next_step=f"set {variable} to one of these, or unset it",
        )
    return choices.get(text, default)
