"""The first file of a driver inside YARN: `python in_cluster.py APP ARGS...`, in the folder of its container.

Spark copies this file there. It takes what the command line has told, and runs the program as the driver of one
application attempt.
"""

from __future__ import annotations

import base64
import os
import sys

from tidegate.core.json_formats import parsed
from tidegate.submit.submission import TOLD


def main(app: str, *arguments: str) -> int:
    """Run the program as `__main__`. Returns the exit code of this process."""
    take_what_was_told()
    sys.path.insert(1, os.getcwd())  # files that were sent with the program
    from tidegate.spark.yarn_attempt import drive_in_yarn  # now: modules read the environment when they are imported

    return drive_in_yarn(app, list(arguments))


def take_what_was_told() -> None:
    """Set the variables that the command line has told. What belongs to one machine goes into the container."""
    told = os.environ.pop(TOLD, "")
    os.environ.update(parsed(base64.b64decode(told), dict[str, str]) if told else {})
    os.environ.setdefault("XDG_STATE_HOME", os.getcwd())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
