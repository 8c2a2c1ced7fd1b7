"""`./dev campaign files`: a job that reads files, struck by a seeded plan while its files come, move, go and change."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.campaign.ending import closed
from tests.campaign_files.planted import PLANTED
from tests.campaign_files.report import as_json, as_text
from tests.campaign_files.run import Entry, Options, run_campaign
from tests.support.jvm import quick_jvms


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign files", description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1, help="with an odd one files that changed are read again")
    parser.add_argument("--minutes", type=float, help="strike no more after so many minutes")
    parser.add_argument("--planted", choices=sorted(PLANTED), help="break one rule of the source: it must be found")
    parser.add_argument("--json", action="store_true", help="print all figures and the history as JSON")
    arguments = parser.parse_args()
    quick_jvms()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-campaign-files-"))
    options = Options(
        folder=folder,
        kills=arguments.kills,
        seed=arguments.seed,
        minutes=arguments.minutes,
        planted=arguments.planted,
    )
    report = run_campaign(options, _tell)
    return closed(report, as_json(report) if arguments.json else as_text(report))


def _tell(entry: Entry) -> None:
    acts = f" ({', '.join(entry.acts)})" if entry.acts else ""
    print(
        f"{entry.number:4} {entry.files:5} files {entry.seconds:6.2f} s  {entry.step}{acts}",
        file=sys.stderr,
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
