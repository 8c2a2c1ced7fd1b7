"""A failed epoch that is tolerated where no other run may follow in the same process: the program is started again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.jobs.under_run import UnderRun, write
from tests.support.today import turn

COUNTING = Path(__file__).with_name("counting_program.py")


@turn(0, of=2)
def test_a_failed_epoch_with_hashmap_state_is_tolerated_by_a_new_process(tmp_path: Path):
    """No restart strategy is asked. The next driver gives the epoch more time, and counts are those of one state. The
    supervisor leaves the epoch its time, although that is longer than progress_timeout."""
    write(tmp_path, 0, 3)
    (tmp_path / "mined").touch()
    given = ["state.backend=hashmap", "checkpointing.timeout=8s", "checkpointing.tolerable_failures=3"]
    given += ["progress_timeout=6s", "restart.strategy=none"]
    options = [word for each in given for word in ("-D", each)]
    with UnderRun(tmp_path, program=COUNTING, options=options) as run:
        assert run.wait() == 0, run.tail()
        failures = run.failures()
        said = run.log.read_text()
    first = failures[-1]
    assert {(each.code, each.restart_in_seconds) for each in failures} == {("TG-EPOCH-TIMEOUT", 0.0)}
    assert (first.query, first.epoch) == ("counts", 0)
    assert "epoch 0 has failed (not prepared within checkpointing.timeout), 1 in a row: the program is started" in said
    assert "epoch 0 was cut off before, after 8 s: it has 16 s when it runs again" in said
    assert "with hashmap a failed epoch is tolerated by a new start of the program" in said
    with closing(sqlite3.connect(tmp_path / "out.db")) as database:
        counts = database.execute("SELECT number, count FROM numbers ORDER BY number").fetchall()
    assert counts == [(0, 2), (1, 1)]
