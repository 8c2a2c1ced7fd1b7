"""What `tidegate run` does with the live view, without Spark: a driver is started and watched.

Arguments: the job's folder, the driver's program, seconds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tidegate.cli.open_view import open_view
from tidegate.storages.schemes import Folder


def main(folder: Path, program: str, seconds: float) -> None:
    with open_view() as view:
        driver = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **view.environment})
        view.declared(Folder.of(folder))
        time.sleep(seconds)
        view.stopping()
        driver.send_signal(signal.SIGTERM)
        driver.wait()
        print("the job has ended", file=sys.stderr)
    print("after the view", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
