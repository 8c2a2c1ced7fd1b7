"""What an error of tidegate looks like on the screen of a program, and what helps against one of SQLite's."""

from __future__ import annotations

import logging
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import SECRETS
from tidegate.logs.last_word import VERBOSE, show_errors_alone
from tidegate.sinks.sqlite.words import remedy_of
from tidegate.spark.callbacks import is_no_refused_epoch
from tidegate.spark.epoch_watch import EpochRefused
from tidegate.spark.jvm_output import log_options, spark_log
from tidegate.storages.schemes import Folder

ERROR = TidegateError(
    Code.SINK_UNUSABLE, expected="a door", found="hush-hush-hush, a wall", where="here", next_step="go round"
)


@pytest.fixture(autouse=True)
def plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.delenv(VERBOSE, raising=False)


def shown(error: BaseException, capsys: pytest.CaptureFixture[str]) -> str:
    sys.excepthook(type(error), error, error.__traceback__)
    return capsys.readouterr().err


def test_an_error_of_tidegate_is_shown_alone_and_without_secrets(capsys: pytest.CaptureFixture[str]):
    SECRETS.add("hush-hush-hush")
    show_errors_alone()
    ERROR.__cause__ = ValueError("a hundred lines")
    assert shown(ERROR, capsys) == str(ERROR).replace("hush-hush-hush", "***") + "\n"


def test_an_error_of_the_program_has_its_traceback(capsys: pytest.CaptureFixture[str]):
    show_errors_alone()
    error = RuntimeError("of the program")
    error.__cause__ = ERROR
    assert "The above exception was the direct cause" in shown(error, capsys)


def test_who_shows_errors_already_goes_on_to_do_so(monkeypatch: pytest.MonkeyPatch):
    def mine(*_: object) -> None:
        return None

    monkeypatch.setattr(sys, "excepthook", mine)
    show_errors_alone()
    assert sys.excepthook is mine


def test_nothing_is_hidden_where_all_is_to_be_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv(VERBOSE, "1")
    show_errors_alone()
    assert sys.excepthook is sys.__excepthook__
    assert log_options(tmp_path / "spark.log", {VERBOSE: "1"}) == ""


def test_a_configuration_of_the_user_s_own_has_the_last_word(tmp_path: Path):
    log = tmp_path / "spark.log"
    assert "tidegate.spark.log" in log_options(log, {})
    assert log_options(log, {"SPARK_SUBMIT_OPTS": "-Dlog4j2.configurationFile=mine.xml"}) == ""
    assert log_options(log, {"SPARK_CONF_DIR": str(tmp_path)})
    (tmp_path / "log4j2.properties").touch()
    assert log_options(log, {"SPARK_CONF_DIR": str(tmp_path)}) == ""


def test_a_program_that_is_only_checked_logs_nothing_into_its_job(tmp_path: Path):
    assert spark_log(Folder.of(tmp_path), {}) == tmp_path / "logs" / "spark.log"
    assert tmp_path not in spark_log(Folder.of(tmp_path), {"TIDEGATE_CHECK_ONLY": "1"}).parents


def test_py4j_says_nothing_of_an_epoch_whose_error_ends_the_run():
    def record(error: Exception) -> logging.LogRecord:
        return logging.LogRecord("py4j", logging.ERROR, "", 0, "it failed", None, (type(error), error, None))

    assert not is_no_refused_epoch(record(EpochRefused("epoch 7 failed")))
    assert is_no_refused_epoch(record(ValueError("of a listener of the user's")))
    assert is_no_refused_epoch(logging.LogRecord("py4j", logging.ERROR, "", 0, "it failed", None, None))


def test_the_next_step_is_that_of_sqlites_own_code(tmp_path: Path):
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("CREATE TABLE t(x)")
        holder.execute("BEGIN EXCLUSIVE")
        with closing(sqlite3.connect(path, timeout=0)) as other, pytest.raises(sqlite3.Error) as locked:
            other.execute("SELECT * FROM t")
    (tmp_path / "no.db").write_text("a text of another kind\n" * 100)
    with closing(sqlite3.connect(tmp_path / "no.db")) as other, pytest.raises(sqlite3.Error) as foreign:
        other.execute("SELECT * FROM t")
    if sys.version_info >= (3, 11):
        assert "another program holds a lock" in remedy_of(locked.value, path)
        assert "a file of another kind" in remedy_of(foreign.value, path)
    assert str(path) in remedy_of(sqlite3.Error("of no code"), path)
