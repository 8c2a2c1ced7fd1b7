"""A Kafka broker, or a cluster of two or three, in a folder: start, stop, kill and pause its background processes."""

from __future__ import annotations

import base64
import fcntl
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from msgspec.structs import replace

from tidegate.core.errors import Code, TidegateError
from tidegate.extras import Extra, require
from tidegate.machine.java import find_java
from tidegate.testing.kafka import process
from tidegate.testing.kafka.cluster_of_folder import (
    continued,
    formatted,
    is_formatted,
    new_nodes,
    refuse_other,
    refuse_our_settings,
    refuse_running,
    refuse_taken_ports,
    refused,
    users_of,
    with_detours,
)
from tidegate.testing.kafka.jars import DEFAULT_VERSION, kafka_jars
from tidegate.testing.kafka.process import Process
from tidegate.testing.kafka.properties import FILE, server_properties
from tidegate.testing.kafka.record import ClusterRecord, Detour, NodeRecord, load, save
from tidegate.testing.kafka.status import answers

_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_LOOK_SECONDS = 0.05
_SHOWN_LINES = 15
_LOCK = "lock"

# Measured: with the quick compiler alone it is ready after 2.2 s of CPU time instead of 3.8 s, in 166 MB, not 190.
_JVM = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
)
_LOGGING = tuple(
    f"-Dorg.slf4j.simpleLogger.{name}={value}"
    for name, value in {
        "defaultLogLevel": "warn",
        "showDateTime": "true",
        "dateTimeFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS",
    }.items()
)


class Broker:
    """A handle on the broker or cluster in a folder. All facts about it are in the folder, so several processes may
    hold one.

    Methods with `numbers` act on the brokers with these numbers (1, 2, 3); without numbers, on all of them. Used as a
    context manager, the handle stops the brokers at the end.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        if load(self.folder) is None:
            raise refused(
                "a broker in this folder", "none was ever started there", self.folder, "start it, or name its folder"
            )

    @classmethod
    def start(
        cls,
        folder: str | Path,
        *,
        version: str | None = None,
        port: int = 0,
        brokers: int | None = None,
        transaction_version: int | None = None,
        settings: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
        jvm: Sequence[str] = (),
        detour: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> Broker:
        """Start a broker that runs until it is stopped, and wait until it answers.

        If the folder already has a broker, its data and version are kept, and so are its ports, users and Java options
        unless new ones are given. New settings are added to the old ones.

        version: the Kafka version, such as "4.1.1".
        port: the port of the first broker; the others use the next numbers. 0: any free ports.
        brokers: the number of brokers, 1 to 3.
        transaction_version: 0 or 2, for Kafka 4 and newer. None: the default of the Kafka version.
        settings: settings of the broker, as in its `server.properties`.
        users: passwords by user name (SASL PLAIN). With users, access control lists are enforced; `admin` may do
            everything.
        jvm: Java options. They come after the default options, which make the broker small and quick to start. To
            measure throughput, give `-XX:TieredStopAtLevel=4` and more heap.
        detour: give each broker a second listener, for clients that connect through a `Proxy` (see there).
        tell: called with a line of text before each step that takes long.
        """
        require(Extra.KAFKA)
        root = Path(folder).absolute()
        root.mkdir(parents=True, exist_ok=True)
        (root / ".gitignore").write_text("*\n", encoding="ascii")
        with _one_command(root):
            nodes = new_nodes(1 if brokers is None else brokers, port)
            wanted = ClusterRecord(
                version=version or DEFAULT_VERSION,
                cluster_id=base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="),
                transaction_version=transaction_version,
                settings=dict(settings or {}),
                nodes=with_detours(nodes) if detour else nodes,
                jvm=tuple(jvm),
                users=users_of(users),
            )
            refuse_our_settings(wanted)
            known = formatted(root)
            if known is not None:
                refuse_running(known, root)
                refuse_other(
                    known,
                    version=version,
                    brokers=brokers,
                    transaction_version=transaction_version,
                    detour=detour or None,
                )
                wanted = continued(known, wanted, port)
            refuse_taken_ports(wanted)
            machine = _Machine(root, wanted, tell)
            save(root, wanted)
            machine.launch(wanted.nodes)
        return cls(root)

    @classmethod
    def find_running(cls, folder: str | Path) -> Broker:
        """A handle on the broker in this folder. Raises TidegateError if none of its processes is alive."""
        broker = cls(folder)
        if not broker.processes():
            raise refused("a broker that runs", "none of its processes is alive", broker.folder, "start it first")
        return broker

    @property
    def servers(self) -> str:
        """The bootstrap servers for clients: `127.0.0.1:PORT`, for several brokers joined by commas."""
        return self._record().servers

    @property
    def detours(self) -> list[Detour]:
        """The second listener of each broker; empty if the broker was started without `detour`."""
        return [node.detour for node in self._record().nodes if node.detour is not None]

    def options(self, user: str) -> dict[str, str]:
        """The client options that log in as this user; empty if the broker has no users."""
        return self._record().client_options(user)

    def processes(self, *numbers: int) -> list[Process]:
        """The processes of these brokers that are alive."""
        return [node.process for node in self._nodes(numbers) if node.process is not None and node.process.is_alive()]

    def stop(self, *numbers: int) -> None:
        """Stop brokers with SIGTERM, and with SIGKILL after 20 s. Does nothing for a broker that has ended already."""
        with _one_command(self.folder):
            self._stop(numbers)

    def kill(self, *numbers: int) -> None:
        """Kill brokers with SIGKILL, as in a crash. `status` then reports them as died."""
        process.kill(self.processes(*numbers))

    def pause(self, *numbers: int) -> None:
        """Pause brokers with SIGSTOP: they keep their connections and do not answer.

        Returns when they have stopped running.
        """
        process.pause(self.processes(*numbers))

    def resume(self, *numbers: int) -> None:
        """Let paused brokers run again (SIGCONT)."""
        for one in self.processes(*numbers):
            one.send(signal.SIGCONT)

    def restart(self, *numbers: int) -> None:
        """Stop the brokers that run, start them at the same ports with the same data, and wait until they answer."""
        with _one_command(self.folder):
            self._stop(numbers)
            _Machine(self.folder, self._record()).launch(self._nodes(numbers))

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _record(self) -> ClusterRecord:
        record = load(self.folder)
        if record is None:
            raise refused("the broker of this handle", "its record is gone", self.folder, "start it anew")
        return record

    def _nodes(self, numbers: Sequence[int]) -> list[NodeRecord]:
        return [node for node in self._record().nodes if not numbers or node.number in numbers]

    def _stop(self, numbers: Sequence[int]) -> None:
        process.end(self.processes(*numbers), _STOP_SECONDS)
        stopped = [replace(node, process=None) for node in self._nodes(numbers)]
        save(self.folder, self._record().replaced(*stopped))


class _Machine:
    """Starts the processes of a cluster record. Java and the jars are looked up first, before anything is written."""

    def __init__(self, root: Path, record: ClusterRecord, tell: Callable[[str], None] = lambda _: None) -> None:
        self._root = root
        self._record = record
        self._java = find_java().command
        self._jars = kafka_jars(record.version, tell)

    def launch(self, nodes: Sequence[NodeRecord]) -> None:
        """Start these nodes and wait until they answer.

        If one does not answer, all of them are stopped and the call raises.
        """
        self._prepare(nodes)
        started: list[NodeRecord] = []
        try:
            for node in nodes:
                started.append(replace(node, process=self._spawn(node)))
                save(self._root, self._record.replaced(*started))
            self._await_answers(started)
        except BaseException:
            process.kill([node.process for node in started if node.process is not None])
            save(self._root, self._record.replaced(*(replace(node, process=None) for node in nodes)))
            raise

    def _prepare(self, nodes: Sequence[NodeRecord]) -> None:
        """Write the properties file of each node, and format its data folder if that is new."""
        for node in nodes:
            node.folder(self._root).mkdir(exist_ok=True)
            path = node.folder(self._root) / FILE
            path.touch(mode=0o600)  # it may hold passwords
            path.write_text(server_properties(self._record, node), encoding="ascii")
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._format, [node for node in nodes if not is_formatted(self._root, node)]))

    def _format(self, node: NodeRecord) -> None:
        features = self._record.transaction_version
        options = [] if features is None else ["--feature", f"transaction.version={features}"]
        done = subprocess.run(
            self._command(
                "kafka.tools.StorageTool",
                ["format", f"--cluster-id={self._record.cluster_id}", "--config", FILE, *options],
            ),
            cwd=node.folder(self._root),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_START_SECONDS,
        )
        if done.returncode != 0:
            self._fail(node, "its data folder could not be formatted", done.stdout)

    def _spawn(self, node: NodeRecord) -> Process:
        command = self._command("kafka.Kafka", [FILE])
        return process.spawn(command, node.folder(self._root), node.log(self._root))

    def _command(self, main: str, arguments: Sequence[str]) -> list[str]:
        return [self._java, *_JVM, *self._record.jvm, *_LOGGING, "-cp", f"{self._jars}{os.sep}*", main, *arguments]

    def _await_answers(self, nodes: Sequence[NodeRecord]) -> None:
        end = time.monotonic() + _START_SECONDS
        silent = list(nodes)
        while silent:
            for node in nodes:
                if node.process is None or not node.process.is_alive():
                    self._fail(node, "its process ended", self._log(node))
            silent = [node for node in silent if not answers(self._record, node)]
            if silent and time.monotonic() > end:
                self._fail(silent[0], f"no answer after {_START_SECONDS:.0f} s", self._log(silent[0]))
            time.sleep(_LOOK_SECONDS if silent else 0)

    def _log(self, node: NodeRecord) -> str:
        return node.log(self._root).read_text(encoding="utf-8", errors="replace")

    def _fail(self, node: NodeRecord, found: str, printed: str) -> NoReturn:
        lines = [found, *(f"  | {line}" for line in printed.splitlines()[-_SHOWN_LINES:])]
        raise TidegateError(
            Code.BROKER_FAILED,
            expected=f"Kafka {self._record.version} to answer at {node.server}",
            found="\n".join(lines),
            where=str(node.folder(self._root)),
        )


@contextmanager
def _one_command(root: Path) -> Generator[None, None, None]:
    """Allow one start or stop at a time in this folder: raises if another process is in the middle of one."""
    with (root / _LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refused(
                "to start or stop the broker", "another process does so now", root, "wait until it is done"
            ) from None
        yield
