"""`./dev campaign crash`: a real job on real Spark, struck by a seeded plan, every record compared."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.campaign.ending import closed
from tests.campaign.report import as_json, as_text
from tests.campaign.run import Entry, Options, run_campaign
from tests.campaign.servers import STORAGES
from tests.campaign.stores.named import STORES
from tests.support.jvm import quick_jvms
from tidegate.core.levels import Level
from tidegate.storages.schemes import Scheme


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign", description=__doc__)
    parser.add_argument("what", choices=["crash", *STORES], help="a store: its sinks and its server are struck")
    parser.add_argument("--kills", type=int, default=300, help="processes to kill; other strikes come in proportion")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, help="strike no more after so many minutes")
    parser.add_argument("--level", type=Level, default=Level.EXACTLY_ONCE, help="delivery level of the job")
    parser.add_argument("--common", action="store_true", help="only kills that every level can take, to compare them")
    parser.add_argument(
        "--storage",
        type=Scheme,
        choices=list(STORAGES),
        default=Scheme.FILE,
        metavar="{file,hdfs,s3}",
        help="of the checkpoints: the disk, or a server that is started for the campaign",
    )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="the drivers work on a standalone cluster, whose executors are killed, too; input and output are on the"
        " storage",
    )
    parser.add_argument("--records", type=int, help="of the input, for a store")
    parser.add_argument("--json", action="store_true", help="print all figures and the history as JSON")
    arguments = parser.parse_args()
    if arguments.cluster and arguments.storage is Scheme.FILE:
        parser.error("--cluster needs --storage hdfs or s3: executors see no local disk")
    store = None if arguments.what == "crash" else str(arguments.what)
    if store is None and arguments.records is not None:
        parser.error("--records is for a store")
    if store is not None and (arguments.common or arguments.storage is not Scheme.FILE):
        parser.error("a store is struck with checkpoints on the disk, by a plan of its own")
    if store is not None and arguments.level is not Level.EXACTLY_ONCE:
        parser.error("a store is struck at exactly-once")
    quick_jvms()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-campaign-"))
    options = Options(
        folder=folder,
        kills=arguments.kills,
        seed=arguments.seed,
        minutes=arguments.minutes,
        level=arguments.level,
        common=arguments.common,
        storage=arguments.storage,
        cluster=arguments.cluster,
        store=store,
        records=arguments.records,
    )
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
