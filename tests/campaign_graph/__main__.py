"""`./dev campaign graph`: a bank of four queries is killed by a plan, and its money counted in each checkpoint."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.campaign.drivers import CampaignFailed
from tests.campaign_graph.run import GraphCampaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign graph", description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-campaign-graph-"))
    campaign, begun = GraphCampaign(folder, arguments.seed, _tell), time.monotonic()
    report = campaign.report
    try:
        campaign.run(arguments.kills)
    except CampaignFailed as failed:
        report.flaws.append(str(failed))
    modes = ", ".join(f"{count} {mode}" for mode, count in sorted(report.modes.items()))
    print(
        f"seed {arguments.seed}: {report.kills} kills ({modes})\n"
        f"{report.checkpoints} checkpoints counted, {report.flying} with money in channels: {report.torn} torn\n"
        f"{report.payments} payments compared: {report.lost} lost, {report.repeated} repeated\n"
        f"{report.restores} restores, killed on the way\n"
        f"{(time.monotonic() - begun) / 60:.1f} minutes"
    )
    if not report.flaws:
        shutil.rmtree(folder)
        return 0
    print("\n".join([*report.flaws, f"kept: {folder}"]))
    return 1


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
