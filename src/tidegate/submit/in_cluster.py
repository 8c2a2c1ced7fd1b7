"""The first file of a driver inside a cluster: `python in_cluster.py APP ARGS...`, in the folder of its container.

Spark copies this file there. It gives the program what the command line has told, and runs it.
"""

from __future__ import annotations

import base64
import os
import runpy
import sys

from tidegate.core.json_formats import parsed

TOLD = "TIDEGATE_TOLD"
"""The variable that holds other variables, as JSON in base64: YARN writes it into a shell script, unquoted."""


def main(app: str, *arguments: str) -> None:
    """Run the program as `__main__`. What belongs to one machine goes into the container's folder."""
    told = os.environ.pop(TOLD, "")
    os.environ.update(parsed(base64.b64decode(told), dict[str, str]) if told else {})
    os.environ.setdefault("XDG_STATE_HOME", os.getcwd())
    sys.argv = [app, *arguments]
    sys.path[0] = os.getcwd()
    runpy.run_path(app, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
