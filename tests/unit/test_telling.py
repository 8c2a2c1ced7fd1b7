"""An error comes whole out of the text that another process's traceback is, and nothing else does."""

from __future__ import annotations

import json
import traceback
from typing import Any

import pyarrow as pa
import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import SECRETS
from tidegate.core.telling import DETAIL_AT_MOST, TEXT_AT_MOST, ToldError, ToldStep, all_heard, heard, told
from tidegate.disk.durable import SyncFailed, is_of_a_failed_sync
from tidegate.sinks.rows import RowRefused, row_text

WORD = "5eed5eed"


def error_with(**changed: Any) -> TidegateError:
    given: dict[str, Any] = {
        "code": Code.RECORD_REFUSED,
        "expected": "a value in the key column of every row",
        "found": "a null",
        "where": "sink 'out', task 0",
        "next_step": "leave such rows out with where=",
        "details": {"column": "id", "epoch": 7, "row": "{id: None}"},
        **changed,
    }
    return TidegateError(given.pop("code"), **given)


def text_of(error: TidegateError, step: ToldStep = ToldStep.WRITE, behind: BaseException | None = None) -> str:
    """As Spark hands it on: a traceback with a stack of the JVM's around it."""
    try:
        raise told(error, step, WORD, behind)
    except ToldError as raised:
        python = "".join(traceback.format_exception(raised))
    java = "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(Python.scala:580)\n"
    return f"Job aborted due to stage failure: PythonException: {python}\n{java * 30}"


def test_an_error_comes_whole_out_of_another_process_s_traceback():
    error = error_with()
    said = heard(text_of(error, ToldStep.PRE_COMMIT), WORD)
    assert said is not None
    assert (str(said.error), dict(said.error.details), said.step) == (
        str(error),
        dict(error.details),
        ToldStep.PRE_COMMIT,
    )
    assert "row:      {id: None}" in str(said.error)


def test_several_errors_are_heard_in_their_order_and_several_violations_with_theirs():
    errors = [error_with(found="first"), error_with(found="second", violations=[error_with(found="third")])]
    text = "".join(text_of(each) for each in errors)
    found = [said.error for said in all_heard(text, WORD)]
    assert [each.found for each in found] == ["first", "second"]
    assert [each.found for each in found[1].violations] == ["third"]


def test_text_that_was_cut_gives_no_half_error_and_the_whole_one_behind_it():
    whole = text_of(error_with(found="whole"))
    line = whole[whole.index("@tidegate-error") :]
    for length in range(0, line.index("\n"), 7):
        assert heard(line[:length], WORD) is None
        said = heard(line[:length] + "\n" + whole, WORD)
        assert said is not None
        assert said.error.found == "whole"


def test_a_row_that_looks_like_the_mark_is_no_error():
    """Also a whole line of another process, as a job meets it that reads logs."""
    other = str(told(error_with(found="of another job"), ToldStep.WRITE, "another"))
    assert heard(text_of(error_with(found=other)), "yet another") is None
    said = heard(f"ValueError: {other}\n{text_of(error_with(details={'row': other}))}", WORD)
    assert said is not None
    assert said.error.found == "a null"


@pytest.mark.parametrize("line", ["{}", "[]", "7", '{"code": "TG-NO-SUCH-CODE"}', '{"code": "TG-RECORD-REFUSED"}', "{"])
def test_what_is_not_such_a_line_is_passed_by(line: str):
    assert heard(f"@tidegate-error {WORD} {line}", WORD) is None
    assert heard("some other text", WORD) is None


def test_an_error_is_bounded_and_says_how_long_it_was():
    said = heard(text_of(error_with(found="x" * 10**6, details={"row": "y" * 10**6, "epoch": 10**30})), WORD)
    assert said is not None
    assert len(said.error.found) == TEXT_AT_MOST
    assert len(str(said.error.details["row"])) == DETAIL_AT_MOST
    assert said.error.found.endswith("(1000000 characters)")
    assert said.error.details["epoch"] == 10**30


def test_no_secret_and_nothing_but_ascii_is_handed_on():
    SECRETS.add("hush-hush-hush")
    text = str(
        told(error_with(found="hush-hush-hush ä \ud800", details={"row": "{password: 'x7'}"}), ToldStep.WRITE, WORD)
    )
    assert text.isascii()
    assert "hush-hush-hush" not in text
    assert "x7" not in text


def test_an_error_of_several_lines_keeps_its_shape_on_the_screen():
    lines = str(error_with(found="one\ntwo", details={})).splitlines()
    assert lines[2:4] == ["  found:    one", "            two"]


def test_the_driver_hears_that_a_sync_failed_in_a_task_and_never_out_of_its_text():
    failed = OSError("beside")
    failed.__cause__ = SyncFailed(OSError(5, "Input/output error"), "out")
    assert is_of_a_failed_sync(heard(text_of(error_with(), behind=failed), WORD) or OSError())
    assert not is_of_a_failed_sync(heard(text_of(error_with(found="SyncFailed")), WORD) or OSError())
    assert not is_of_a_failed_sync(RuntimeError("a row that says SyncFailed"))


def test_a_refused_row_is_named_where_it_was_and_what_was_in_it():
    batch = pa.record_batch({"id": [1, None], "word": ["a", "b" * 500]})
    refused = RowRefused(expected="a value", found="a null", next_step="mend", column="id", row=1)
    error = refused.placed({"sink": "out", "query": "job/q", "epoch": 7, "task": 0}, batch)
    assert error.catalogue_entry is Code.RECORD_REFUSED
    assert error.where == "sink 'out', query job/q, epoch 7, task 0, column 'id'"
    row = str(error.details["row"])
    assert row.startswith("{id: None, word: 'bbb")
    assert len(row) < 120


def test_a_row_is_shown_also_where_python_has_no_value_for_what_is_in_it():
    batch = pa.record_batch(
        {
            "at": pa.array([2**62], pa.timestamp("us")),
            "text": pa.array([b"\xff"], pa.binary()).view(pa.string()),
            "there": pa.array([0], pa.timestamp("us", tz="GMT+03:00")),  # a session's time zone, as Java names it
            "password": ["hidden-by-its-name"],
            "n": [7],
        }
    )
    shown = row_text(batch, 0)
    assert "n: 7" in shown
    assert "hidden-by-its-name" not in shown


def test_the_line_is_json_for_every_other_reader():
    text = str(told(error_with(), ToldStep.WRITE, WORD))
    parts = json.loads(text.removeprefix(f"@tidegate-error {WORD} "))
    assert (parts["code"], parts["details"]["column"]) == ("TG-RECORD-REFUSED", "id")
