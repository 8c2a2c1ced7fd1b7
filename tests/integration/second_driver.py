"""The second driver of the story: it tries, says why it was refused, waits until it is told, and tries again."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.session import small_session
from tidegate import FileSink, FileSource, Job, TidegateError


def main(folder: Path) -> None:
    spark = small_session()
    job = Job("job", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    words = job.source(
        "words", FileSource(str(folder / "in"), format="json", schema="word string", maxFilesPerTrigger=1)
    )
    job.query("query", words, sinks=[FileSink("files", folder / "out", format="json")])
    try:
        job.start()
    except TidegateError as error:
        print(error.code, error.found.partition(",")[0], flush=True)
    sys.stdin.readline()
    handle = job.start(until="caught-up")
    handle.wait()
    print("finished", handle.status().queries[0].finished, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
