"""The drivers, seen by the one who strikes: forked, told what to do, watched, stopped, killed."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from tests.campaign.places import DELIVERY, PROGRAM, Places

BOUND_SECONDS = 300.0
"""For everything that is waited for, on a machine that does other work, too."""

LOOK_SECONDS = 0.002
_ROOT = Path(__file__).parents[2]


class CampaignFailed(Exception):
    """Something did not come, or came out wrong; the message says what."""


class Target(Enum):
    """The processes of a driver."""

    PYTHON = "driver"
    JVM = "JVM"
    WORKER = "worker"
    EXECUTOR = "executor"


@dataclass(eq=False)
class Driver:
    """One driver process. What it has said is kept in `said`, in order."""

    number: int
    process: int
    jvm: int
    application: str
    connection: socket.socket
    log: Path
    said: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    gone: bool = False
    _heard: bytes = b""
    _born: dict[int, str] = field(default_factory=dict[int, str])

    def __post_init__(self) -> None:
        self._born = {process: _birth(process) for process in (self.process, self.jvm)}

    def tell(self, **command: str) -> None:
        """Give it a command; one that is dead hears nothing."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.connection.sendall(json.dumps(command).encode() + b"\n")

    def listen(self) -> None:
        """Take in what it has said until now, and whether it is gone."""
        while not self.gone and select.select([self.connection], [], [], 0)[0]:
            try:
                heard = self.connection.recv(65536)
            except ConnectionResetError:
                heard = b""
            self.gone = not heard
            self._heard += heard
            *lines, self._heard = self._heard.split(b"\n")
            self.said.extend(json.loads(line) for line in lines)

    def has_said(self, event: str, since: int = 0) -> bool:
        self.listen()
        return any(each["event"] == event for each in self.said[since:])

    def pids(self, target: Target) -> list[int]:
        """The living processes of this kind; without a worker, the daemon that would fork one."""
        match target:
            case Target.PYTHON:
                return [self.process]
            case Target.JVM:
                return [self.jvm]
            case Target.WORKER:
                daemons = self._daemons()
                return children(daemons) or daemons
            case Target.EXECUTOR:
                return self.executors()

    def send(self, signal_number: signal.Signals, *processes: int) -> None:
        """Send to processes of this driver; never to another one that has got the number of a dead one since."""
        for process in processes:
            if self._born.get(process) in (None, _birth(process)):
                with suppress(ProcessLookupError):
                    os.kill(process, signal_number)

    def kill_all(self) -> None:
        """SIGKILL to everything of it at one moment; idempotent. The numbers are looked up before anything dies."""
        self.send(signal.SIGKILL, self.process, self.jvm, *self.workers())
        self.gone = True

    def workers(self) -> list[int]:
        daemons = self._daemons()
        return [*daemons, *children(daemons)]

    def executors(self) -> list[int]:
        """Those of its application, on a cluster of this machine."""
        named = f"\0--app-id\0{self.application}\0".encode()
        return [process for process in processes() if named in _command(process)]

    def _daemons(self) -> list[int]:
        return children([self.jvm, *self.executors()])

    def is_alive(self, process: int) -> bool:
        """Whether this process of the driver lives: as long as one of its threads does, it holds its files and locks.

        When all are killed at one moment, the first thread may be a zombie before the others have ended.
        """
        return self._born[process] == _birth(process) and any(state != "Z" for state in _thread_states(process))

    def is_stopped(self) -> bool:
        """Whether its Python process stands still after SIGSTOP."""
        return _state(self.process) == "T"

    def last_words(self) -> str:
        text = self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""
        return f"driver {self.number} said {self.said[-3:]}\n{text}"


class Drivers(Protocol):
    """Where the next driver comes from."""

    def order(self) -> None:
        """Let one more driver be made, in the background."""
        ...

    def take(self, *, order_next: bool = True) -> Driver:
        """The next driver, which waits for its first command."""
        ...

    def give_back(self, driver: Driver) -> None:
        """It was taken and did not get the job."""
        ...

    @property
    def made(self) -> int:
        """How many drivers were taken."""
        ...

    def sum_of(self, figure: str) -> int:
        """What the drivers have counted, as far as they came to say it."""
        ...


class Stable:
    """Forks drivers; one is always kept warm for the next start. Leaves no process behind."""

    def __init__(self, places: Places, *, level: str | None, program: str = "tests.campaign.program") -> None:
        self._places = places
        self._asked = 0
        self._drivers: list[Driver] = []
        self._given_back: list[Driver] = []
        self._listener = socket.socket(socket.AF_UNIX)
        for folder in (places.strikes, places.log(0).parent, places.temporary):
            folder.mkdir(parents=True, exist_ok=True)
        self._listener.bind(str(places.commands))
        self._listener.listen(8)
        self._zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.campaign.zygote"],
            env=_environment(places, level, program),
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=places.log(0).open("ab"),
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.order()

    def order(self) -> None:
        """Let one more driver be made, in the background."""
        if self._zygote.stdin is None:
            raise CampaignFailed("the zygote has no standard input")
        self._asked += 1
        request = {"number": str(self._asked), "root": str(self._places.root)}
        self._zygote.stdin.write(json.dumps(request) + "\n")
        self._zygote.stdin.flush()

    def take(self, *, order_next: bool = True) -> Driver:
        """The driver that was ordered first and not taken yet, warm; the next one is ordered."""
        if self._given_back:
            return self._given_back.pop()
        self._listener.settimeout(BOUND_SECONDS)
        try:
            connection, _ = self._listener.accept()
            connection.settimeout(BOUND_SECONDS)
            said = json.loads(line_of(connection))
        except (TimeoutError, ValueError) as error:
            raise CampaignFailed(f"no driver came to life: {error!r}") from error
        number = int(said["number"])
        log = self._places.log(number)
        driver = Driver(number, int(said["process"]), int(said["jvm"]), said["application"], connection, log)
        self._drivers.append(driver)
        if order_next:
            self.order()
        return driver

    @property
    def made(self) -> int:
        """How many drivers were taken."""
        return len(self._drivers)

    def sum_of(self, figure: str) -> int:
        """What the drivers have counted, as far as they came to say it."""
        return sum(int(said.get(figure, 0)) for driver in self._drivers for said in driver.said)

    def give_back(self, driver: Driver) -> None:
        """It was taken and did not get the job: it is still warm."""
        self._given_back.append(driver)

    def __enter__(self) -> Stable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Everything ends: the drivers that were taken are killed, those in the making find nobody to tell them."""
        making = [process for process in children([self._zygote.pid]) if process not in self._known()]
        for driver in self._drivers:
            driver.kill_all()
            driver.connection.close()
        below = children(making)
        for process in [*making, *below, *children(below), self._zygote.pid]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._zygote.wait()
        self._listener.close()
        self._places.commands.unlink(missing_ok=True)

    def _known(self) -> set[int]:
        return {driver.process for driver in self._drivers}


def wait_until(
    seen: Callable[[], object],
    what: str,
    drivers: Iterable[Driver] = (),
    bound_seconds: float = BOUND_SECONDS,
    look_seconds: float = LOOK_SECONDS,
) -> None:
    """Wait for observed state; there is a bound."""
    end = time.monotonic() + bound_seconds
    while not seen():
        if time.monotonic() > end:
            words = "\n".join(driver.last_words() for driver in drivers)
            raise CampaignFailed(f"not seen in {bound_seconds:g} s: {what}\n{words}")
        time.sleep(look_seconds)


def pause(chance: random.Random, at_most_seconds: float) -> float:
    """A seeded moment to let pass behind an observed one; its length in seconds."""
    seconds = chance.random() * at_most_seconds
    time.sleep(seconds)
    return seconds


def _environment(places: Places, level: str | None, program: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    path = os.pathsep.join([str(_ROOT / "src"), str(_ROOT), *filter(None, [inherited.get("PYTHONPATH")])])
    return {
        "SPARK_LOCAL_IP": "127.0.0.1",
        **inherited,
        "PYTHONPATH": path,
        "PYSPARK_PYTHON": sys.executable,
        "TMPDIR": str(places.temporary),
        "TIDEGATE_TESTING": "1",
        "TIDEGATE_STRIKES": str(places.strikes),
        PROGRAM: program,
        **({} if level is None else {DELIVERY: level}),
    }


def line_of(connection: socket.socket) -> bytes:
    """The next line that a driver says. Raises ValueError where it ends before that."""
    heard = b""
    while not heard.endswith(b"\n"):
        more = connection.recv(1)
        if not more:
            raise ValueError(f"a driver ended while it was made: {heard!r}")
        heard += more
    return heard


def children(parents: Iterable[int]) -> list[int]:
    """The living child processes, as /proc shows them."""
    wanted, found = set(parents), list[int]()
    for process in processes() if wanted else []:
        fields = _stat(process)
        if fields and int(fields[1]) in wanted and fields[0] != "Z":
            found.append(process)
    return found


def processes() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def _command(process: int) -> bytes:
    """Its words, each with a zero byte behind it; nothing where it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _birth(process: int) -> str:
    """When the process was started, in ticks since the machine was; empty when there is none."""
    return next(iter(_stat(process)[19:20]), "")


def _thread_states(process: int) -> list[str]:
    try:
        threads = os.listdir(f"/proc/{process}/task")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [fields[0] for thread in threads if (fields := _stat_of(Path(f"/proc/{process}/task/{thread}/stat")))]


def _state(process: int) -> str:
    return (_stat(process) or ["gone"])[0]


def _stat(process: int) -> list[str]:
    """The fields of /proc/<process>/stat behind the name: state, parent, ..."""
    return _stat_of(Path(f"/proc/{process}/stat"))


def _stat_of(file: Path) -> list[str]:
    try:
        return file.read_text().rpartition(") ")[2].split(" ")
    except (FileNotFoundError, ProcessLookupError):
        return []
