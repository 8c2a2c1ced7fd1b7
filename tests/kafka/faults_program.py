"""The program of `exact_program.py`, with tidegate's log at the level at which it tells what recovery did."""

from __future__ import annotations

import logging
import runpy
from pathlib import Path

if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("tidegate").setLevel(logging.INFO)
    runpy.run_path(str(Path(__file__).with_name("exact_program.py")), run_name="__main__")
