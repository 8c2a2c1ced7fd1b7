"""A job that reads the source of the package outside.

python drops_program.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from tidegate import Job, SQLiteSink
from tidegate.sources.kinds import source_class

folder = Path(sys.argv[1])
source = cast("Any", source_class("drops"))(folder / "sent", token="hunter2")
job = Job("job", checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
rows = job.source("drops", source)
job.query("query", rows, sinks=[SQLiteSink("table", str(folder / "out.db"), table="lines")])
job.run(until="caught-up")
