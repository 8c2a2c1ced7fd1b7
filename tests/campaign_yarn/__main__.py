"""`./dev campaign yarn`: a job whose driver is inside YARN is struck by a seeded plan, and every record compared."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.campaign.ending import closed
from tests.campaign.report import as_json, as_text
from tests.campaign.run import Entry
from tests.campaign_yarn.run import YarnOptions, run_campaign
from tests.support.jvm import quick_jvms


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign yarn", description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="strike no more after so many minutes")
    parser.add_argument("--json", action="store_true", help="print all figures and the history as JSON")
    arguments = parser.parse_args()
    quick_jvms()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-campaign-yarn-"))
    options = YarnOptions(folder=folder, kills=arguments.kills, seed=arguments.seed, minutes=arguments.minutes)
    report = run_campaign(options, _tell)
    return closed(report, as_json(report) if arguments.json else as_text(report))


def _tell(entry: Entry) -> None:
    print(
        f"{entry.number:4} epoch {entry.epoch:4} {entry.phase} {entry.seconds:6.2f} s  {entry.step}",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
