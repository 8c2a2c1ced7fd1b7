"""The savepoint demo with checkpoints on HDFS: hashmap, killed, canceled, RocksDB, a retained checkpoint.

The lines come from files: a socket keeps its lines in a log that is on a local disk.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.jobs.terminal import Terminal, opened, shows
from tests.jobs.test_savepoint_example import counts, wait_for
from tests.support.driver import PYTHON_PATH
from tests.support.hdfs import HdfsServer
from tidegate import operate

PROGRAM = Path(__file__).with_name("words_program.py")


class Demo:
    """One terminal, and the lines that were written so far."""

    def __init__(self, terminal: Terminal, jobs: str) -> None:
        self.terminal = terminal
        self.jobs = jobs
        self.written: Counter[str] = Counter()
        self._files = 0

    def write_and_count(self, line: str) -> None:
        """One more file; wait until the table has counted it."""
        file = self.terminal.folder / "in" / f"{self._files}.txt"
        file.with_suffix(".new").write_text(f"{line}\n")
        file.with_suffix(".new").rename(file)
        self._files += 1
        self.written.update(line.split())
        wait_for(lambda: counts(self.terminal.folder) == self.written, f"{self.written}: {self.terminal.screen}")

    def run(self, options: str) -> None:
        assert shows(self.terminal.type(f"tidegate run -d {options} words_program.py"), r"^job words: process \d+")

    def backend(self) -> str:
        settings = operate.open(self.jobs, "words").info().settings
        return next(each.value for each in settings if each.name == "state.backend")


@pytest.mark.more
@pytest.mark.timeout(600)
def test_a_word_count_on_hdfs_is_killed_canceled_with_a_savepoint_and_restored_twice(
    hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, savepoints = f"{hdfs.uri}/{tmp_path.name}/jobs", f"{hdfs.uri}/{tmp_path.name}/savepoints"
    monkeypatch.setenv("TIDEGATE_CHECKPOINTING_DIR", jobs)
    monkeypatch.setenv("PYTHONPATH", PYTHON_PATH)
    shutil.copy(PROGRAM, tmp_path)
    (tmp_path / "in").mkdir()
    with opened(tmp_path, "words") as terminal:
        demo = Demo(terminal, jobs)
        demo.run("-D state.backend=hashmap")
        demo.write_and_count("sea sand sea")
        beat = operate.open(jobs, "words").info().job.beat
        assert beat is not None
        os.kill(beat.incarnation.process, signal.SIGKILL)
        demo.write_and_count("sand wind")
        assert demo.backend() == "hashmap"
        answer = terminal.type(f"tidegate cancel words -s {savepoints}")
        assert shows(answer, "cancel-with-savepoint words: done")
        (saved,) = (each.path for each in operate.list_savepoints(savepoints).savepoints)

        demo.run(f"-s {saved} -D state.backend=rocksdb")
        demo.write_and_count("wind sea")
        assert demo.backend() == "rocksdb"
        assert shows(terminal.type("tidegate cancel words"), "cancel words: done")
        info = operate.open(jobs, "words").info()

        demo.run(f"-s {jobs}/{info.job.job_id}/chk-{max(info.retained)} -D state.backend=rocksdb")
        demo.write_and_count("sand sea")
        assert shows(terminal.type("tidegate stop words"), "stop words: done")
        assert counts(tmp_path) == demo.written
        assert {query.generation for query in operate.open(jobs, "words").info().queries} == {3}
    assert "Traceback" not in terminal.screen
