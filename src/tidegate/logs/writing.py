"""Logs: everything goes to Python's logging, under one name, and says whom it is about.

A program that runs by itself configures Python's logging as it likes; tidegate adds no handler there. Under
`tidegate run` nobody else does it: there every line of the process is written in the format that was asked for.
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
"""The environment variable that tells a driver the number of its end of the line."""
FORMAT_VARIABLE = "TIDEGATE_LOG_FORMAT"
LEVEL_VARIABLE = "TIDEGATE_LOG_LEVEL"


class LogLevel(Enum):
    """The least level of what is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class LogChoice:
    """What `tidegate run` was asked for. Warnings are shown unasked, as Python does."""

    format: LogFormat = LogFormat.TEXT
    level: LogLevel = LogLevel.WARNING

    def environment(self) -> dict[str, str]:
        """How the choice is handed down to the processes of the job."""
        return {FORMAT_VARIABLE: self.format.value, LEVEL_VARIABLE: self.level.value}

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> LogChoice:
        """The choice that was handed down. Raises SETTING_VALUE."""
        default = cls()
        return cls(
            format=_read(environment, FORMAT_VARIABLE, default.format),
            level=_read(environment, LEVEL_VARIABLE, default.level),
        )


def set_up(choice: LogChoice, environment: Mapping[str, str]) -> None:
    """Write every line of this process to its standard error, as chosen; also warnings, and errors nobody caught.

    A program that configures logging itself after that (`basicConfig(force=True)`, `dictConfig`) has it its own way.
    """
    SECRETS.add_environment(environment)
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each, _Written)]:
        root.removeHandler(old)
    root.addHandler(_Written(choice.format))
    root.setLevel(choice.level.name)
    for noisy in ("py4j", "kafka"):  # they log every call, and a login's request with its password
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread


def set_up_below_run(environment: Mapping[str, str]) -> None:
    """The same for a process that `tidegate run` started, or that one of those did; no other process is touched."""
    if SUPERVISED in environment and not any(isinstance(each, _Written) for each in logging.getLogger().handlers):
        set_up(LogChoice.of(environment), environment)


def log_failure(error: BaseException) -> None:
    """One line for what ended the program, with everything that the error says."""
    _LOG.error("the program has failed", exc_info=error, extra={"event": "Failed"})


def log_happening(level: int, happening: object, **whose: object) -> None:
    """One line for something that happened: its type is the event's name, its own parts are the fields."""
    if not _LOG.isEnabledFor(level):
        return
    parts: dict[str, object] = {}
    if is_dataclass(happening):
        parts = {each.name: getattr(happening, each.name) for each in fields(happening)}
    known = {name: parts[name] for name in ("epoch",) if name in parts}
    extra = {**whose, **known, "event": type(happening).__name__, "fields": parts}
    _LOG.log(level, "%s", happening, extra=extra)


class _Written(logging.Handler):
    """Writes to whatever is the standard error at that moment."""

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
        """Nobody reads the standard error any more: there is nobody to be told that."""


class _Told(logging.Filter):
    """Completes what tidegate logs, for whatever handlers a program has: whom it is about, and no secret in it."""

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


if not any(isinstance(each, _Told) for each in _LOG.filters):
    _LOG.addFilter(_Told())


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
