"""Errors between processes: if only text is passed on, an error is one line of JSON after a mark.

Spark passes on only text from a task, or from a source's process, to the driver: a traceback inside other text,
sometimes several times, sometimes cut. `told` makes the line and `heard` finds it. No other text is interpreted.

The mark contains a random word that the processes of one program share. So a row, a log or an older error in the same
text is never mistaken for an error of this program.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, cast

from tidegate.core.errors import Code, Detail, TidegateError
from tidegate.core.redaction import SECRETS

TEXT_AT_MOST = 2_000
"""Most characters of each part of a reported error."""
DETAIL_AT_MOST = 300
"""Characters of each detail: a row, a key, a name."""


class ToldStep(Enum):
    """The failed work in the reporting process."""

    WRITE = "a sink did not take the rows of a task"
    PRE_COMMIT = "a sink took the rows, and could not make them durable"
    SOURCE = "a source did not give its rows or positions"
    START = "a job could not start"


class ToldError(Exception):
    """An error that goes to another process, or came from one. Its text is the line, and nothing else.

    `causes` are the names of the types of the error and of all its causes, outermost first; they exist only as text by
    now.
    """

    def __init__(self, error: TidegateError, step: ToldStep, causes: tuple[str, ...], word: str) -> None:
        self.error = error
        self.step = step
        self.causes = causes
        line = {"step": step.name, "causes": causes, **parts_of(error)}
        super().__init__(f"{_mark(word)}{json.dumps(line)}")


def told(error: TidegateError, step: ToldStep, word: str, behind: BaseException | None = None) -> ToldError:
    """The exception to raise, or to write, in place of `error`: bounded, without secrets, and in ASCII. `behind`: the
    error from which this one was made.
    """
    causes = tuple(type(each).__name__ for each in _chain(behind or error))
    return ToldError(error, step, causes, word)


def heard(text: str, word: str) -> ToldError | None:
    """The first complete error in `text` that is marked with `word`; None if there is none."""
    return next(all_heard(text, word), None)


def all_heard(text: str, word: str) -> Iterator[ToldError]:
    """All complete errors in `text` that are marked with `word`, the random word of the program, in their order. Errors
    that are cut off are skipped.
    """
    mark, decoder = _mark(word), json.JSONDecoder()
    at = text.find(mark)
    while at >= 0:
        at += len(mark)
        try:
            line, at = decoder.raw_decode(text, at)
            yield _told_by(line, word)
        except (ValueError, LookupError, TypeError):  # cut, or of another release
            pass
        at = text.find(mark, at)


def parts_of(error: TidegateError) -> dict[str, Any]:
    """An error as JSON has it, bounded and without secrets."""
    parts: dict[str, Any] = {
        "code": error.code,
        "expected": _part(error.expected),
        "found": _part(error.found),
        "where": _part(error.where),
        "next": _part(error.next_step),
    }
    if error.details:
        parts["details"] = {name: _detail(value) for name, value in error.details.items()}
    if error.violations:
        parts["violations"] = [parts_of(each) for each in error.violations]
    return parts


def error_of(parts: Mapping[str, Any]) -> TidegateError:
    """The error from the result of `parts_of`. Raises LookupError or TypeError for anything else."""
    return TidegateError(
        _BY_LABEL[parts["code"]],
        expected=str(parts["expected"]),
        found=str(parts["found"]),
        where=str(parts["where"]),
        next_step=str(parts["next"]),
        details=cast("Mapping[str, Detail]", parts.get("details", {})),
        violations=[error_of(each) for each in parts.get("violations", ())],
    )


def shortened(text: str, at_most: int) -> str:
    """`text`, or its beginning and its length, in at most `at_most` characters."""
    if len(text) <= at_most:
        return text
    end = f"... ({len(text)} characters)"
    return text[: max(at_most - len(end), 0)] + end


def _mark(word: str) -> str:
    return f"@tidegate-error {word} "


def _told_by(line: Mapping[str, Any], word: str) -> ToldError:
    return ToldError(error_of(line), ToldStep[line["step"]], tuple(str(each) for each in line["causes"]), word)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _part(text: str) -> str:
    return shortened(SECRETS.hide(text), TEXT_AT_MOST)


def _detail(value: Detail) -> Detail:
    return shortened(SECRETS.hide(value), DETAIL_AT_MOST) if isinstance(value, str) else value


_BY_LABEL = {code.label: code for code in Code}
