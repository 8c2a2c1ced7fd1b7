"""What `tidegate run` does with the live view, without Spark: a driver is started, followed and watched.

Arguments: the job's folder, the driver's program, seconds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tidegate.cli.live import open_view
from tidegate.cli.live_view import Stage, Watched
from tidegate.jobs.beat import read_beat


def main(folder: Path, program: str, seconds: float) -> None:
    with open_view() as view:
        environment = {**os.environ, **view.streams.environment}
        driver = subprocess.Popen(
            [sys.executable, "-c", program], stdout=view.streams.stdout, stderr=view.streams.stderr, env=environment
        )
        view.follow(driver)
        since = time.time()
        view.watch(Watched(stage=Stage.RUNNING, since=since), lambda: read_beat(folder))
        time.sleep(seconds)
        driver.send_signal(signal.SIGTERM)
        driver.wait()
        view.say("the job has ended")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
