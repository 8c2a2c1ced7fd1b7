"""`./dev campaign graph`: a bank of four queries is killed by a plan, and its money counted in each checkpoint."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tests.campaign.ending import closed
from tests.campaign_graph.run import GraphOptions, run_campaign
from tests.support.jvm import quick_jvms
from tidegate.testing.kafka import Broker


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign graph", description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kafka", action="store_true", help="the channels are over Kafka, on a broker of its own")
    arguments = parser.parse_args()
    quick_jvms()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-campaign-graph-"))
    options = GraphOptions(folder, arguments.kills, arguments.seed)
    with tempfile.TemporaryDirectory(prefix="tidegate-broker-") as place, ExitStack() as stack:
        if arguments.kafka:
            broker = stack.enter_context(Broker.start(Path(place)))
            options = replace(options, servers=broker.servers)
        report = run_campaign(options, _tell)
    return closed(report, report.as_text())


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
