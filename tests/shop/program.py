"""The job of `examples/shop.py` on a small machine, until it has caught up."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from tests.support.session import small_session

EXAMPLE = Path(__file__).parents[2] / "examples" / "shop.py"


def main(folder: Path) -> None:
    small_session(spark_sql_shuffle_partitions="2")
    shop = runpy.run_path(str(EXAMPLE))
    shop["declare"](folder, shop["Stores"].of_environment()).run(until="caught-up")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
