"""Lines of the log: text for people, JSON for programs; who they are about, and what they never show."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.house.repository import ROOT
from tidegate.core import happenings
from tidegate.core.effects import Happening
from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import SECRETS
from tidegate.logs.lines import LogFormat, as_json, as_text, line_of
from tidegate.logs.subject import Subject, about, about_all_of, subject
from tidegate.logs.writing import LogChoice, LogLevel, log_happening

PASSWORD = "correct-horse-battery"


def record(message: str, *args: object, error: BaseException | None = None, **extra: object) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("tidegate", logging.WARNING, __file__, 1, message, args, info)
    made.created = 1_790_000_000.1234
    made.__dict__.update(extra)
    return made


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 (given back)
        return caught


def json_of(made: logging.LogRecord) -> dict[str, Any]:
    text = as_json(line_of(made))
    assert "\n" not in text
    return json.loads(text)


def refused(**parts: str) -> TidegateError:
    given = {"expected": "a table", "found": "none", "where": "sink s", **parts}
    return TidegateError(Code.SINK_UNUSABLE, next_step="make one", **given)  # pyright: ignore[reportArgumentType]


# --- what a line says --------------------------------------------------------------------------------------


def test_a_line_for_people_says_when_what_and_whom_it_is_about():
    with about(job="words", query="counts", run=3, epoch=17):
        line = as_text(line_of(record("sink %s: not ready", "table", event="SinkNotReady")))
    assert re.fullmatch(
        r"2026-09-2\d \d\d:\d\d:20\.123 WARNING \[words/counts run 3 epoch 17\] SinkNotReady: sink table: not ready",
        line,
    )


def test_a_line_without_a_job_is_as_short_as_can_be():
    assert as_text(line_of(record("hello"))).endswith(" WARNING hello")


def test_a_line_for_programs_has_every_part_under_its_name():
    with about(job="words", query="counts", run=3, epoch=17):
        line = json_of(record("it is %d", 5, event="EpochDone", fields={"epoch": 17, "rows": 5, "path": Path("/x")}))
    assert line == {
        "time": "2026-09-21T14:13:20.123Z",
        "level": "warning",
        "logger": "tidegate",
        "job": "words",
        "query": "counts",
        "run": 3,
        "epoch": 17,
        "event": "EpochDone",
        "message": "it is 5",
        "fields": {"epoch": 17, "rows": 5, "path": "/x"},
    }


def test_what_is_not_known_is_null():
    line = json_of(record("hello"))
    assert [line[name] for name in ("job", "query", "run", "epoch", "event")] == [None] * 5


def test_what_a_record_says_of_itself_counts_more_than_its_thread():
    with about(job="words", query="counts", epoch=17):
        line = json_of(record("hello", epoch=4))
    assert (line["job"], line["query"], line["epoch"]) == ("words", "counts", 4)


def test_a_thread_is_about_what_it_was_before_once_it_has_gone_on():
    with about(job="words"):
        with about_all_of(Subject(job="other", run=2), epoch=1):
            assert subject() == Subject(job="other", run=2, epoch=1)
        assert subject() == Subject(job="words")
    assert subject() == Subject()


def test_an_error_of_tidegate_is_one_line_for_programs():
    line = json_of(record("failed", error=raised(refused())))
    assert line["code"] == "TG-SINK-UNUSABLE"
    assert [line[name] for name in ("expected", "found", "where", "next")] == ["a table", "none", "sink s", "make one"]
    assert line["traceback"].startswith("Traceback (most recent call last):")
    assert "in raised" in line["traceback"]


def test_each_of_several_violations_is_told():
    several = TidegateError(
        Code.START_REFUSED,
        expected="a job that can start",
        found="2 violations",
        where="job j",
        next_step="mend",
        violations=[refused(found="first"), refused(found="second")],
    )
    assert [each["found"] for each in json_of(record("failed", error=several))["violations"]] == ["first", "second"]


def test_an_error_of_tidegate_says_all_by_itself_to_people():
    line = as_text(line_of(record("failed", error=raised(refused()))))
    assert "Traceback" not in line
    assert "\n      expected: a table\n" in line


def test_any_other_error_is_shown_with_its_traceback():
    assert "in raised" in as_text(line_of(record("failed", error=raised(ValueError("odd")))))
    assert json_of(record("failed", error=raised(ValueError("odd"))))["error"] == "ValueError"


# --- hostile messages --------------------------------------------------------------------------------------


def test_no_message_can_look_like_a_line_of_its_own():
    line = as_text(line_of(record("a\n2026-09-21 10:00:00.000 ERROR forged\r\x1b[2Jb\u2028c")))
    assert line.splitlines()[1:] == ["    2026-09-21 10:00:00.000 ERROR forged", "    \\x1b[2Jb", "    c"]


@pytest.mark.parametrize("value", ["\ud800", "\0", "é😀", float("nan"), object(), {"a": 1}, 10**30, b"\xff"])
def test_whatever_a_message_holds_is_one_line_of_json(value: object):
    line = json_of(record("it is %s", value, fields={"value": value}))
    assert set(line["fields"]) == {"value"}


def test_arguments_that_do_not_fit_are_told_as_they_are():
    assert "%d rows ('many',)" in json_of(record("%d rows", "many"))["message"]


def test_an_argument_that_cannot_be_shown_does_not_end_the_job():
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert "RuntimeError" in json_of(record("it is %s", Odd()))["message"]


# --- secrets -----------------------------------------------------------------------------------------------


@pytest.fixture
def known() -> str:
    SECRETS.add(PASSWORD)
    return PASSWORD


@pytest.mark.parametrize("form", [as_text, as_json])
def test_no_part_of_a_line_shows_a_secret(known: str, form):
    try:
        try:
            raise ValueError(f"login with {known} refused")
        except ValueError as cause:
            raise refused(found=f"answer to {known}", where=known) from cause
    except TidegateError as error:
        made = record("user %s, password %s", "u", known, error=error, event=known, job=known, fields={"x": [known]})
    line = form(line_of(made))
    assert known not in line
    assert "***" in line
    assert "login with *** refused" in line, "the cause is still told"


def test_a_library_users_own_handler_gets_the_record_complete_and_without_secrets(
    known: str, caplog: pytest.LogCaptureFixture
):
    with about(job="words", query="counts", run=3):
        logging.getLogger("tidegate").warning("login %s and %s", known, "sea", extra={"fields": {"x": known, "n": 4}})
    (made,) = caplog.records
    assert made.getMessage() == "login *** and sea"
    assert made.__dict__["fields"] == {"x": "***", "n": 4}
    assert [made.__dict__[name] for name in ("job", "query", "run", "epoch", "event")] == [
        "words",
        "counts",
        3,
        None,
        None,
    ]
    logging.getLogger("tidegate").warning("plain %s", "sea")
    assert caplog.records[-1].args == ("sea",), "a message without a secret stays as it was, for those who group by it"


# --- happenings --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EpochPainted(Happening):
    epoch: int
    colour: str

    def __str__(self) -> str:
        return f"it is {self.colour}"


def test_a_happening_is_an_event_with_its_fields(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, "tidegate"):
        log_happening(logging.INFO, EpochPainted(4, "blue"), job="words", query="counts", run=None)
    line = json_of(caplog.records[0])
    assert (line["event"], line["message"], line["epoch"]) == ("EpochPainted", "it is blue", 4)
    assert line["fields"] == {"epoch": 4, "colour": "blue"}


def test_every_happening_is_a_sentence():
    kinds = [each for each in vars(happenings).values() if isinstance(each, type) and issubclass(each, Happening)]
    assert len(kinds) > 9
    for kind in kinds:
        assert kind is Happening or "__str__" in vars(kind), kind


def test_everything_is_logged_under_one_name():
    """The filter that says whom a line is about belongs to that name, and would not see what a child logs."""
    asked = re.compile(r"getLogger\(([^)]*)\)")
    found = {name for path in (ROOT / "src").rglob("*.py") for name in asked.findall(path.read_text())}
    ours, of_libraries = {'"tidegate"', "OWN", ""}, {"noisy", '"kafka"', "_name", "_TELLS_OF_ERRORS"}
    assert found == ours | of_libraries


# --- a process below `tidegate run` ------------------------------------------------------------------------


def test_the_choice_is_handed_down_whole():
    choice = LogChoice(LogFormat.JSON, LogLevel.DEBUG)
    assert LogChoice.of(choice.environment()) == choice
    assert LogChoice.of({}) == LogChoice(LogFormat.TEXT, LogLevel.WARNING)


def test_a_choice_that_there_is_not_is_refused():
    with pytest.raises(TidegateError) as refusal:
        LogChoice.of({"TIDEGATE_LOG_FORMAT": "xml"})
    assert "text, json" in refusal.value.expected


PROGRAM = """
import logging, os, sys, threading, warnings
from tidegate.logs.writing import set_up_below_run
from tidegate.logs.subject import about
set_up_below_run(os.environ)
log = logging.getLogger("tidegate")
with about(job="words"):
    log.debug("debug")
    log.info("info")
    log.warning("warning")
logging.getLogger("mine").warning("%s", "of the program's own")
logging.getLogger("py4j").info("never")
warnings.warn("old", DeprecationWarning, stacklevel=1)
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
raise RuntimeError("the database is at postgresql://u:pass@db, and " + os.environ["DB_PASSWORD"])
"""


def lines_of(program: str, **environment: str) -> list[str]:
    """What a program writes to its standard error."""
    given = {**os.environ, "DB_PASSWORD": PASSWORD, **environment}
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program], env=given, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == ""
    assert done.returncode == (1 if "raise RuntimeError" in program else 0)
    return done.stderr.splitlines()


def test_below_run_every_line_of_a_process_is_json_and_nothing_shows_a_secret():
    written = lines_of(PROGRAM, TIDEGATE_SUPERVISED="1", TIDEGATE_LOG_FORMAT="json", TIDEGATE_LOG_LEVEL="info")
    lines = [json.loads(line) for line in written]
    assert [line["message"] for line in lines[:3]] == ["info", "warning", "of the program's own"]
    assert {line["job"] for line in lines[:2]} == {"words"}
    assert "old" in lines[3]["message"]
    assert (lines[4]["event"], lines[4]["error"]) == ("ThreadFailed", "ZeroDivisionError")
    assert (lines[5]["event"], lines[5]["error"]) == ("Failed", "RuntimeError")
    assert "postgresql://u:***@db, and ***" in lines[5]["traceback"]
    assert PASSWORD not in "\n".join(written)


def test_below_run_warnings_are_shown_unasked_and_no_more():
    written = lines_of(PROGRAM, TIDEGATE_SUPERVISED="1")
    assert written[0].endswith("WARNING [words] warning")
    assert not [line for line in written if line.endswith(("info", "never", "debug"))]
    assert PASSWORD not in "\n".join(written)


def test_without_run_logging_stays_in_the_programs_hands():
    """Python shows warnings by itself, in its own form; whatever the environment says, nothing is set up."""
    program = (
        PROGRAM.replace("raise", "#")
        + "\nlogging.basicConfig(format='mine %(job)s')\n"
        + ("with about(job='words'): log.warning('x')")
    )
    written = lines_of(program, TIDEGATE_LOG_FORMAT="json")
    assert written[0] == "warning"
    assert written[-1] == "mine words"


def test_who_no_longer_reads_the_log_ends_no_job():
    gone = "def gone(*_): raise BrokenPipeError\nsys.stderr = type('Gone', (), {'write': gone, 'flush': gone})()\n"
    end = "sys.stderr = sys.__stderr__\nprint('to the end', file=sys.stderr)"
    program = "import sys\n" + gone + PROGRAM.partition("thread =")[0] + end
    assert lines_of(program, TIDEGATE_SUPERVISED="1") == ["to the end"]
