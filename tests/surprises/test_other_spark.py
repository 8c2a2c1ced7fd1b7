"""The older of the two supported versions of Spark, which `./dev test` installs beside the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.integration.place import Place, run
from tests.support.today import turn
from tests.surprises import counts
from tidegate.core.records import Decided, decode
from tidegate.core.spark_log import is_entry_of_spark

ROOT = Path(__file__).parents[2]
SPARK_4_2 = Path(sys.prefix) / "spark-4.2"


@turn(0, of=4)
def test_a_job_runs_on_spark_4_2_and_goes_on_under_the_environments_own(place: Place) -> None:
    assert SPARK_4_2.is_dir(), "`./dev test` installs it"
    paths = {"PYTHONPATH": os.pathsep.join(map(str, (SPARK_4_2, ROOT))), "PYSPARK_PYTHON": sys.executable}
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    ended = subprocess.run(
        [sys.executable, counts.__file__, str(place.folder)],
        env={**environment, **paths},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert ended.stdout.split()[-1].startswith("4.2.")
    assert place.table("counts") == [("sand", 2), ("sea", 3), ("wind", 1)]
    assert place.log("ledger/done") == [0, 1, 2]
    lists = [path.name for path in (place.query() / "spark" / "sources" / "0").iterdir() if path.is_file()]
    assert (len(lists), any(map(is_entry_of_spark, lists))) == (3, False), "tidegate's own source was compiled there"
    assert place.table("lost") == [("sea", 7, "b.json")]
    assert place.log("ledger/done", job="lost") == [0, 1], "an epoch without any file, and the one behind it"
    decided = decode(Decided, (place.query() / "ledger/decided/2").read_bytes(), "decided")
    assert decided.state_rows == {"0": 3}

    place.write("sand", "salt")
    run(counts.counts_job(place))
    assert place.table("counts") == [("salt", 1), ("sand", 3), ("sea", 3), ("wind", 1)]
    assert sorted((row["word"], row["count"]) for row in place.files()[3]) == [("salt", 1), ("sand", 3)]
    assert place.log("ledger/operators") == [], "the fingerprints of its operators are the same under both"
