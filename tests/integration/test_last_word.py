"""What a user sees of a program, line by line: nothing of a start, and of an error tidegate's own words alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.screen import screen_of
from tests.support.today import turn

PROGRAM = """
from tidegate import FileSource, Job, SQLiteSink

job = Job("words", checkpointing_dir="checkpoints", checkpointing_interval=0)
rows = job.source("words", FileSource("in", format="json", schema="word string, n int"))
job.query("counts", rows, sinks=[SQLiteSink("out", "out.db", table="t", key="word")])
job.run(until="caught-up")
print("done")
"""

_ONCE_MORE = """
from pathlib import Path

print("logs:", list(Path("checkpoints/words/logs").iterdir()))
Path("in/more.json").write_text('{"n": 1}\\n')
job.run(until="caught-up")
"""

REFUSED = """\
TG-RECORD-REFUSED: a sink cannot take a row; its epoch is undecided, and every start would come to the same row again
  expected: a value in key column 'word' of every row
  found:    a null
  where:    sink 'out', query words/counts, epoch 0, task 0, column 'word'
  row:      {word: None, n: 1}
  next:     leave such rows out with where=, or give them a value with F.coalesce
"""


def program(folder: Path, rows: str) -> Path:
    (folder / "in").mkdir()
    (folder / "in" / "rows.json").write_text(rows)
    app = folder / "app.py"
    app.write_text(PROGRAM)
    return app


def ran(app: Path, *command: str, **environment: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = subprocess.run(
        command,
        cwd=app.parent,
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
    )
    return done.returncode, done.stdout, done.stderr


@turn(1, of=2)
def test_a_program_shows_what_it_prints_itself_and_its_error_and_the_rest_is_in_a_file(tmp_path: Path):
    """In a terminal, where a first run ends well and a second one does not."""
    app = program(tmp_path, '{"word": "sea", "n": 1}\n')
    app.write_text(PROGRAM + _ONCE_MORE)
    assert screen_of([sys.executable, "app.py"], tmp_path) == (
        1,
        "done\nlogs: []\n" + REFUSED.replace("epoch 0", "epoch 1"),
    )
    log = (tmp_path / "checkpoints" / "words" / "logs" / "spark.log").read_text()
    assert "Task 0 in stage" in log
    assert "RowRefused" in log


@pytest.mark.more
def test_who_wants_to_see_everything_does(tmp_path: Path):
    app = program(tmp_path, '{"n": 1}\n')
    code, output, shown = ran(app, sys.executable, "app.py", TIDEGATE_VERBOSE="1")
    assert (code, output) == (1, "")
    assert REFUSED.partition(": ")[2] in shown, "the JVM may still write behind it"
    for told in ("Using incubator modules", "Traceback (most recent call last)", "TaskSetManager"):
        assert told in shown


@pytest.mark.more
@pytest.mark.parametrize("words", [["run"], ["check"]], ids=["run", "check"])
def test_the_option_verbose_shows_everything_too(tmp_path: Path, words: list[str]):
    app = program(tmp_path, '{"n": 1}\n')
    app.write_text(PROGRAM.replace('key="word"', 'key="none"') if words == ["check"] else PROGRAM)
    code, output, shown = ran(app, str(Path(sys.executable).with_name("tidegate")), *words, "--verbose", "app.py")
    assert (code, "TG-" in output + shown) == (1, True)
    for told in ("Using incubator modules", "Traceback (most recent call last)"):
        assert told in shown


@pytest.mark.more
def test_under_tidegate_run_the_error_is_the_last_thing_and_no_trace_of_spark_s_is_before_it(tmp_path: Path):
    app = program(tmp_path, '{"n": 1}\n')
    code, output, shown = ran(app, str(Path(sys.executable).with_name("tidegate")), "run", "app.py")
    assert (code, output) == (1, "")
    lines = shown.splitlines(keepends=True)
    assert lines[0].startswith("job words: starting")
    assert "".join(lines[-6:]) == REFUSED
    assert len(lines) <= 8, shown
