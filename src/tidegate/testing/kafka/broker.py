"""A Kafka broker (or a cluster of two or three) in a folder: started in the background, stopped, killed, paused."""

from __future__ import annotations

import base64
import fcntl
import os
import re
import secrets
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
from tidegate.testing.kafka import process
from tidegate.testing.kafka.jars import DEFAULT_VERSION, kafka_jars
from tidegate.testing.kafka.java import find_java
from tidegate.testing.kafka.ports import free_port, require_free
from tidegate.testing.kafka.process import Process
from tidegate.testing.kafka.properties import DATA, FILE, place, security, server_properties
from tidegate.testing.kafka.record import OWN_USER, Detour, NodeRecord, Record, load, save
from tidegate.testing.kafka.status import answers

MOST_BROKERS = 3

_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_LOOK_SECONDS = 0.05
_SHOWN_LINES = 15
_LOCK = "lock"
_PLAIN = re.compile(r"[\w.-]+", re.ASCII)

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
    """A handle on the broker in a folder. What it is stands in the folder: any process may hold a handle too.

    Methods that take `numbers` mean these brokers of the cluster (1, 2, 3), or all where none is given.
    As a context manager it is stopped at the end.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        if load(self.folder) is None:
            raise _refused(
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

        A folder that had one goes on with its data, its version and, where nothing else is said, its ports, users and
        Java options; new settings are added to those it has.

        version: of Kafka, like "4.1.1".
        port: of the first broker; the others follow. 0: any free ones.
        brokers: how many, 1 to 3.
        transaction_version: 0 or 2, from Kafka 4 on; without it, what is usual for the version.
        settings: the broker's own, as in its `server.properties`.
        users: passwords by name (SASL PLAIN). Then an access list decides who may do what; `admin` may do everything.
        jvm: put behind the options that make it small and quick to start. Where its speed is measured:
            `-XX:TieredStopAtLevel=4`, and more heap.
        detour: each broker can also be reached by way of a `Proxy` (see there).
        tell: is given a line before something that takes long.
        """
        root = Path(folder).absolute()
        root.mkdir(parents=True, exist_ok=True)
        (root / ".gitignore").write_text("*\n", encoding="ascii")
        with _one_command(root):
            wanted = Record(
                version=version or DEFAULT_VERSION,
                cluster_id=base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="),
                transaction_version=transaction_version,
                settings=dict(settings or {}),
                nodes=_new_nodes(1 if brokers is None else brokers, port, detour=detour),
                jvm=tuple(jvm),
                users=_users(users),
            )
            _refuse_our_settings(wanted)
            known = _formatted(root)
            if known is not None:
                _refuse_running(known, root)
                _refuse_other(
                    known,
                    version=version,
                    brokers=brokers,
                    transaction_version=transaction_version,
                    detour=detour or None,
                )
                wanted = _continued(known, wanted, port)
            _refuse_taken_ports(wanted)
            machine = _Machine(root, wanted, tell)
            save(root, wanted)
            machine.launch(wanted.nodes)
        return cls(root)

    @classmethod
    def find_running(cls, folder: str | Path) -> Broker:
        """The broker of a folder, of which at least one process must be alive."""
        broker = cls(folder)
        if not broker.processes():
            raise _refused("a broker that runs", "none of its processes is alive", broker.folder, "start it first")
        return broker

    @property
    def servers(self) -> str:
        """`127.0.0.1:PORT`, of several joined by commas: what clients call bootstrap servers."""
        return self._record().servers

    @property
    def detours(self) -> list[Detour]:
        """The second ways to its brokers, where it was started with them."""
        return [node.detour for node in self._record().nodes if node.detour is not None]

    def options(self, user: str) -> dict[str, str]:
        """What a client needs beside the servers to log in as this user; nothing where there are no users."""
        return self._record().client_options(user)

    def processes(self, *numbers: int) -> list[Process]:
        """Those that are alive."""
        return [node.process for node in self._nodes(numbers) if node.process is not None and node.process.is_alive()]

    def stop(self, *numbers: int) -> None:
        """End in order (SIGTERM; SIGKILL after 20 s). What has ended already stays so."""
        with _one_command(self.folder):
            self._stop(numbers)

    def kill(self, *numbers: int) -> None:
        """SIGKILL, as a crash would be: `status` says that it died."""
        process.kill(self.processes(*numbers))

    def pause(self, *numbers: int) -> None:
        """SIGSTOP: it holds its connections and does not answer. Returns when it stands still."""
        process.pause(self.processes(*numbers))

    def resume(self, *numbers: int) -> None:
        """SIGCONT, after `pause`."""
        for one in self.processes(*numbers):
            one.send(signal.SIGCONT)

    def restart(self, *numbers: int) -> None:
        """Stop what runs, start it at the same port with the same data, and wait until it answers."""
        with _one_command(self.folder):
            self._stop(numbers)
            _Machine(self.folder, self._record()).launch(self._nodes(numbers))

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _record(self) -> Record:
        record = load(self.folder)
        if record is None:
            raise _refused("the broker of this handle", "its record is gone", self.folder, "start it anew")
        return record

    def _nodes(self, numbers: Sequence[int]) -> list[NodeRecord]:
        return [node for node in self._record().nodes if not numbers or node.number in numbers]

    def _stop(self, numbers: Sequence[int]) -> None:
        process.end(self.processes(*numbers), _STOP_SECONDS)
        stopped = [replace(node, process=None) for node in self._nodes(numbers)]
        save(self.folder, self._record().replaced(*stopped))


class _Machine:
    """Starts the processes of a record: Java and the jars are there before anything else is touched."""

    def __init__(self, root: Path, record: Record, tell: Callable[[str], None] = lambda _: None) -> None:
        self._root = root
        self._record = record
        self._java = find_java()
        self._jars = kafka_jars(record.version, tell)

    def launch(self, nodes: Sequence[NodeRecord]) -> None:
        """Start these nodes and wait until they answer. When one does not, none of them is left."""
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
        """Write the settings; format the data folders that are new."""
        for node in nodes:
            node.folder(self._root).mkdir(exist_ok=True)
            path = node.folder(self._root) / FILE
            path.touch(mode=0o600)  # it may hold passwords
            path.write_text(server_properties(self._record, node), encoding="ascii")
        with ThreadPoolExecutor() as pool:
            list(pool.map(self._format, [node for node in nodes if not _is_formatted(self._root, node)]))

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
            next_step="mend what its log names, then start it again",
        )


def _new_nodes(brokers: int, port: int, *, detour: bool) -> tuple[NodeRecord, ...]:
    if not 1 <= brokers <= MOST_BROKERS:
        raise _bad_value(f"1 to {MOST_BROKERS} brokers", str(brokers), "brokers")
    taken = {port + offset for offset in range(brokers)} if port else set[int]()
    nodes: list[NodeRecord] = []
    for number in range(1, brokers + 1):
        own = port + number - 1 if port else free_port(taken)
        controller = free_port({*taken, own})
        taken |= {own, controller}
        node = NodeRecord(number=number, port=own, controller_port=controller)
        if detour:
            behind = free_port(taken)
            shown = free_port({*taken, behind})
            taken |= {behind, shown}
            node = replace(node, detour=Detour(port=behind, proxy_port=shown))
        nodes.append(node)
    return tuple(nodes)


def _users(given: Mapping[str, str] | None) -> dict[str, str]:
    """The users with the brokers' own; none where none are given."""
    if given is None:
        return {}
    for name, password in given.items():
        if name == OWN_USER or not (_PLAIN.fullmatch(name) and _PLAIN.fullmatch(password)):
            raise _bad_value(f"letters, digits and `._-`, and no user {OWN_USER}", f"the user {name!r}", "users")
    return {OWN_USER: secrets.token_hex(16), **given}


def _continued(known: Record, wanted: Record, port: int) -> Record:
    """The known cluster with what may be changed: its settings and, where `port` is not 0, its ports."""
    ports = [port + node.number - 1 if port else node.port for node in known.nodes]
    nodes = tuple(replace(node, port=own, process=None) for node, own in zip(known.nodes, ports, strict=True))
    users = wanted.users or known.users
    return replace(
        known, nodes=nodes, settings={**known.settings, **wanted.settings}, jvm=wanted.jvm or known.jvm, users=users
    )


def _refuse_other(
    known: Record,
    *,
    version: str | None,
    brokers: int | None,
    transaction_version: int | None,
    detour: bool | None,
) -> None:
    for what, old, new in (
        ("version", known.version, version),
        ("brokers", len(known.nodes), brokers),
        ("transaction version", known.transaction_version, transaction_version),
        ("detour", known.nodes[0].detour is not None, detour),
    ):
        if new is not None and new != old:
            raise _bad_value(f"{what} {old}, with which the folder was begun", str(new), what)


def _refuse_our_settings(record: Record) -> None:
    ours = place(record, record.nodes[0]).keys() | security(record).keys()
    for name in sorted(record.settings.keys() & ours):
        raise _bad_value("settings beside those that make the broker run here", name, "settings")


def _refuse_running(record: Record, root: Path) -> None:
    for node in record.nodes:
        if node.process is not None and node.process.is_alive():
            raise _refused(
                "no broker that runs in this folder",
                f"process {node.process.pid} at {node.server}",
                root,
                "use that one, stop it first, or name another folder",
            )


def _refuse_taken_ports(record: Record) -> None:
    for node in record.nodes:
        require_free(node.port)
        require_free(node.controller_port)
        if node.detour is not None:
            require_free(node.detour.port)


def _formatted(root: Path) -> Record | None:
    """The record, if its cluster was ever begun: a first start that failed leaves nothing to go on with."""
    record = load(root)
    return record if record is not None and any(_is_formatted(root, node) for node in record.nodes) else None


def _is_formatted(root: Path, node: NodeRecord) -> bool:
    return (node.folder(root) / DATA / "meta.properties").exists()


@contextmanager
def _one_command(root: Path) -> Generator[None, None, None]:
    """Refuse to start or stop while somebody else does so in this folder."""
    with (root / _LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _refused(
                "to start or stop the broker", "somebody else does so now", root, "wait until that is done"
            ) from None
        yield


def _refused(expected: str, found: str, where: Path, next_step: str) -> TidegateError:
    return TidegateError(Code.BROKER_REFUSED, expected=expected, found=found, where=str(where), next_step=next_step)


def _bad_value(expected: str, found: str, where: str) -> TidegateError:
    return TidegateError(
        Code.SETTING_VALUE, expected=expected, found=found, where=where, next_step="change it, or use another folder"
    )
