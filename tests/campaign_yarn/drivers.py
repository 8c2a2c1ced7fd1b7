"""The drivers of one application of YARN, one after the other: submitted once, then taken as YARN starts them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.campaign.drivers import CampaignFailed, Driver, children, line_of
from tests.campaign.places import CHECKPOINTS, MASTER, Places
from tests.house.repository import ROOT
from tests.support.yarn import YarnServer

PROGRAM = Path(__file__).with_name("program.py")
_COMMAND = ROOT / "src" / "tidegate" / "cli" / "main.py"
_START_SECONDS = 600.0
"""YARN notices the end of the attempt before, starts a container with a JVM, and that one a session with executors."""

_SETTINGS: Mapping[str, str] = {
    "restart.strategy": "exponential-delay",
    "restart.exponential.initial": "100ms",
    "restart.exponential.max": "500ms",
    "lease.timeout": "30s",
}
"""No end of the restarts, and no long pauses. A busy machine takes no lease away, and YARN takes as long to start the
next driver."""


@dataclass(eq=False)
class YarnDriver(Driver):
    """The driver of one attempt. Its JVM is the application master."""

    yarn: YarnServer = field(kw_only=True)
    container: str = field(kw_only=True)

    def executors(self) -> list[int]:
        """Those of its own attempt: those of the attempt before end a moment later than their driver."""
        attempt = self.container.rpartition("_")[0] + "_"
        return sorted({*self.yarn.containers(attempt)} & {*super().executors()})

    def _daemons(self) -> list[int]:
        """Of Python, in the containers of the executors. The JVM of the driver has one child: the driver."""
        return children(self.executors())


class YarnDrivers:
    """Submits the application, and takes each of its drivers. The stop of YARN ends what is left of it."""

    def __init__(self, places: Places, yarn: YarnServer) -> None:
        self._places = places
        self._yarn = yarn
        self._drivers: list[YarnDriver] = []
        for folder in (places.strikes, places.log(0).parent, places.temporary):
            folder.mkdir(parents=True, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(places.commands))
        self._listener.listen(8)
        self._listener.settimeout(_START_SECONDS)
        self.application = self._submitted()

    def order(self) -> None:
        """YARN makes the next one when this one has ended."""

    def take(self, *, order_next: bool = True) -> YarnDriver:
        """The driver of the newest attempt that lives. YARN starts it by itself."""
        while True:
            driver = self._next()
            self._drivers.append(driver)
            if driver.is_alive(driver.process):
                return driver

    def give_back(self, driver: Driver) -> None:
        raise NotImplementedError("YARN has one driver at a time")

    @property
    def made(self) -> int:
        return len(self._drivers)

    def sum_of(self, figure: str) -> int:
        return sum(int(said.get(figure, 0)) for driver in self._drivers for said in driver.said)

    def __enter__(self) -> YarnDrivers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for driver in self._drivers:
            driver.connection.close()
        self._listener.close()
        self._places.commands.unlink(missing_ok=True)

    def _next(self) -> YarnDriver:
        try:
            connection, _ = self._listener.accept()
            connection.settimeout(_START_SECONDS)
            said: dict[str, Any] = json.loads(line_of(connection))
        except (TimeoutError, ValueError) as error:
            raise CampaignFailed(f"YARN has started no driver: {error!r}\n{self._yarn.logs()}") from error
        number, container = len(self._drivers) + 1, said["container"]
        log = self._yarn.folder / "logs" / said["application"] / container / "stderr"
        processes = int(said["process"]), int(said["jvm"])
        whose = said["application"]
        return YarnDriver(number, *processes, whose, connection, log, yarn=self._yarn, container=container)

    def _submitted(self) -> str:
        """Submit the program; the id of its application."""
        for_master = {name: os.environ[name] for name in (MASTER, CHECKPOINTS)}
        variables = {**for_master, "TMPDIR": str(self._places.temporary)}
        conf = {
            **{f"spark.yarn.appMasterEnv.{name}": value for name, value in variables.items()},
            "spark.executorEnv.TMPDIR": str(self._places.temporary),
            "spark.executor.instances": "1",
            "spark.executor.maxNumFailures": "100000",  # by default the third executor that dies ends the driver
        }
        words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        words += [word for name, value in _SETTINGS.items() for word in ("-D", f"{name}={value}")]
        where = ("--master", "yarn", "--deploy-mode", "cluster", "--json")
        command = [sys.executable, str(_COMMAND), "run", "-d", *where, *words, str(PROGRAM), str(self._places.root)]
        strikes = {"TIDEGATE_TESTING": "1", "TIDEGATE_STRIKES": str(self._places.strikes)}
        environment = {**os.environ, **self._yarn.environment, **strikes}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_START_SECONDS)
        if done.returncode != 0:
            raise CampaignFailed(f"not submitted:\n{done.stdout}\n{done.stderr}\n{self._yarn.logs()}")
        return json.loads(done.stdout)["application"]
