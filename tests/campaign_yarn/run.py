"""The whole campaign on YARN: strike by plan, let YARN start the next driver, and compare every record."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.drivers import CampaignFailed, wait_until
from tests.campaign.ending import flaws_kept
from tests.campaign.field import Field
from tests.campaign.places import CHECKPOINTS, MASTER, Places
from tests.campaign.run import Entry, Options, Report, strike_all
from tests.campaign.schedule import Step
from tests.campaign_yarn.drivers import YarnDrivers
from tests.campaign_yarn.left_over import left_by
from tests.campaign_yarn.schedule import places, plan
from tests.support.hdfs import HdfsServer
from tests.support.variables import variables
from tests.support.yarn import YarnServer
from tidegate.storages.schemes import Scheme

_END_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnOptions(Options):
    """What the user chose."""

    storage: Scheme = Scheme.HDFS
    cluster: bool = True

    @property
    def command(self) -> str:
        return f"./dev campaign yarn --kills {self.kills} --seed {self.seed}"

    def plan(self) -> list[Step]:
        return plan(self.seed, self.kills)

    def places(self) -> Sequence[str]:
        return places()


def run_campaign(options: YarnOptions, tell: Callable[[Entry], None]) -> Report:
    """Strike by the seeded plan in `options.folder`; never raises for what the strikes bring to light."""
    todo = options.plan()
    report = Report(options=options, planned=len(todo))
    campaign = Places(options.folder)
    with _servers(options.folder) as yarn, flaws_kept(report) as begun, YarnDrivers(campaign, yarn) as drivers:
        ground = Field(campaign, drivers, random.Random(options.seed))
        try:
            strike_all(todo, ground, report, tell, begun)
            _demand_the_end(yarn, drivers.application)
            report.flaws += left_by(yarn, drivers.application, campaign)
        finally:
            report.drivers = drivers.made
            report.passed, report.seconds_in = ground.strikes.passed(), dict(ground.seconds)
            report.epochs = len(ground.files)
    return report


@contextmanager
def _servers(folder: Path) -> Generator[YarnServer]:
    """HDFS and YARN with their data below `folder`. The environment of this process leads to them."""
    hdfs = HdfsServer(folder / "hdfs")
    try:
        hdfs.start()
        yarn = YarnServer(folder / "yarn", hdfs)
        try:
            yarn.start()
            with variables({CHECKPOINTS: f"{hdfs.uri}/campaign/checkpoints", MASTER: "yarn"}):
                yield yarn
        finally:
            yarn.stop()
    finally:
        hdfs.stop()


def _demand_the_end(yarn: YarnServer, application: str) -> None:
    """The job was stopped, so its application has succeeded, after whatever attempt."""

    def has_ended() -> bool:
        return [each["state"] for each in yarn.applications() if each["id"] == application] == ["FINISHED"]

    wait_until(has_ended, f"the end of {application}", bound_seconds=_END_SECONDS, look_seconds=0.5)
    (found,) = [each["finalStatus"] for each in yarn.applications() if each["id"] == application]
    if found != "SUCCEEDED":
        raise CampaignFailed(f"{application} has ended as {found}")
