"""Programs one after the other in one process, each as `python app.py` in its folder would be: they share a JVM.

Its arguments are folders. The programs `1.py`, `2.py` and so on of each run in the order of their names. Before each
one a line with its folder and name is written.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tidegate.spark.program import read_program, run_program


def run(program: Path) -> None:
    """Whatever it raises is shown as Python shows it at the end of a program."""
    os.chdir(program.parent)
    print(f"$ {program.parent.name}/{program.name}", flush=True)
    try:
        run_program(read_program(program.name), program.name, [])
    except BaseException:  # noqa: BLE001 (shown by what the program has set up for that)
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    sys.stdout.flush()
    sys.stderr.flush()


if __name__ == "__main__":
    for folder in [Path(each).absolute() for each in sys.argv[1:]]:
        for program in sorted(folder.glob("[0-9].py")):
            run(program)
