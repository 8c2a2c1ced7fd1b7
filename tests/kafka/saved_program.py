"""A driver of the matrix: runs through one epoch, takes a savepoint, says so, and goes on until somebody ends it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.integration.place import NO_DATA_EPOCHS
from tests.kafka.saved_kinds import job_of
from tests.support.session import small_session


def main(folder: Path, kind: str, sink: str, partitions: str, servers: str, topic: str) -> None:
    spark = small_session(**{NO_DATA_EPOCHS: "false"})
    handle = job_of(spark, folder, kind, sink, int(partitions), servers, topic).start()
    while min(handle.finished().values()) < 0:
        time.sleep(0.05)
    path = handle.savepoint(folder / "saved", id="one")
    (folder / "taken").write_text(str(path))
    handle.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
