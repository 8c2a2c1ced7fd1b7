"""`./dev campaign kafka`: a job between Kafka topics, its drivers, workers and brokers struck by a seeded plan."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.campaign.ending import closed
from tests.campaign_kafka.report import as_json, as_text
from tests.campaign_kafka.run import Options, run_campaign
from tests.campaign_kafka.schedule import plan
from tests.support.jvm import quick_jvms

_RECORDS_A_STRIKE = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign kafka", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="SIGKILLs; a quarter as many SIGSTOPs come with them")
    parser.add_argument("--records", type=int, default=1_000_000, help="of the input")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, default=1, choices=[1, 3], help="three go on without one of them")
    parser.add_argument("--minutes", type=float, help="strike no more after so many minutes")
    parser.add_argument("--json", action="store_true", help="print all figures and the history as JSON")
    arguments = parser.parse_args()
    if arguments.records < _RECORDS_A_STRIKE * len(plan(arguments.seed, arguments.kills)):
        parser.error(f"each strike needs {_RECORDS_A_STRIKE} records at least: more --records, or fewer --kills")
    quick_jvms()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-campaign-kafka-"))
    options = Options(
        folder=folder,
        kills=arguments.kills,
        records=arguments.records,
        seed=arguments.seed,
        brokers=arguments.brokers,
        minutes=arguments.minutes,
    )
    report = run_campaign(options, lambda line: print(line, file=sys.stderr, flush=True))
    return closed(report, as_json(report) if arguments.json else as_text(report))


if __name__ == "__main__":
    sys.exit(main())
