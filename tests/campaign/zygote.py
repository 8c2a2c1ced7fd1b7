"""A process that has imported everything and forks a driver whenever it is asked to: `python -m tests.campaign.zygote`.

It reads one JSON line per driver: {"number": 3, "root": folder}.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from importlib import import_module
from pathlib import Path

import pandas as pd
import pyarrow.dataset as ds

from tests.campaign.life import Life
from tests.campaign.places import PROGRAM, Places
from tests.campaign.stores.named import load

import_module(os.environ[PROGRAM])  # so that no driver has to
LOADED = (pd, ds)
load()


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the children are reaped by the system
    for line in sys.stdin:
        if os.fork() == 0:
            _live(json.loads(line))


def _live(request: dict[str, str]) -> None:
    """A driver's whole life; never returns to the zygote's loop."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        places, number = Places(Path(request["root"])), int(request["number"])
        log = os.open(places.log(number), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, source in ((0, nothing), (1, log), (2, log)):
            os.dup2(source, descriptor)
        Life(number, places).live()
        code = 0
    except BaseException:  # noqa: BLE001 (into the log; the exit code tells)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
