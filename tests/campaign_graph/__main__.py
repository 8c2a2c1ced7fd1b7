"""`./dev campaign graph`: a bank of four queries is killed by a plan, and its money counted in each checkpoint."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.campaign.ending import closed
from tests.campaign_graph.run import GraphOptions, run_campaign
from tests.support.jvm import quick_jvms


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign graph", description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    quick_jvms()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-campaign-graph-"))
    report = run_campaign(GraphOptions(folder, arguments.kills, arguments.seed), _tell)
    return closed(report, report.as_text())


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
