"""The four programs of `examples/` on YARN with their checkpoints on HDFS, as docs/how-to/programs-on-yarn.md tells it.

Each line is typed in a terminal, and names no folder of the job's checkpoints but the one that starts it. `pytest -s`
shows what stands on the screen.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import hdfs_native
import pytest

from tests.house.repository import ROOT
from tests.jobs.terminal import Terminal, opened, shows
from tests.support.peer import Peer
from tests.support.yarn import YarnServer
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import read_all

PAGE = ROOT / "docs" / "how-to" / "programs-on-yarn.md"
RUN = "tidegate run-application -d -t yarn-application"
SECONDS = 600.0

pytestmark = [pytest.mark.more, pytest.mark.cluster, pytest.mark.timeout(2400)]


class Session:
    """A terminal on a machine that knows where YARN and HDFS are."""

    def __init__(self, terminal: Terminal, yarn: YarnServer) -> None:
        self.terminal = terminal
        self.yarn = yarn
        self.hdfs = f"{yarn.hdfs.uri}/{terminal.folder.name}"
        """The place of the page's `hdfs://namenode:8020`."""

    def submit(self, options: str, program: str) -> str:
        """Start a program inside of YARN, with its checkpoints in `chk`; the application."""
        line = f"{RUN} {options} --dir {self.hdfs}/chk examples/{program}".replace("  ", " ")
        code, said = self.terminal.type(line)
        found = re.search(
            r"^(application_\d+_\d+): submitted\n  what it prints: yarn logs -applicationId \1$", said, re.MULTILINE
        )
        assert (code, found is not None) == (0, True), said
        return "" if found is None else found[1]

    def job_in(self, application: str) -> str:
        """The id of the one job of an application, when its driver runs."""

        def running() -> list[str]:
            """Not typed: a user types it once, when it is time."""
            code, said = self.terminal.tried(f"tidegate list -yid {application} --json")
            return (
                [each["job_id"] for each in json.loads(said)["jobs"] if each["state"] == "RUNNING"] if not code else []
            )

        self.wait_for(lambda: len(running()) == 1, f"a driver of {application}")
        assert shows(self.terminal.type(f"tidegate list -yid {application}"), r"RUNNING")
        return running()[0]

    def kill_driver(self, job: str, application: str) -> None:
        code, said = self.terminal.type(f"tidegate info {job} -yid {application}")
        found = re.search(r"^driver +process (\d+) on", said, re.MULTILINE)
        assert (code, found is not None) == (0, True), said
        self.terminal.type(f"kill -9 {'' if found is None else found[1]}")

    def printed(self, application: str) -> str:
        """All that the driver of an application has printed, in its attempts one after the other."""
        logs = sorted(self.yarn.folder.glob(f"logs/{application}/container_*_000001/stdout"))
        return "\n".join(each.read_text("utf-8", "replace") for each in logs)

    def counts(self, application: str) -> dict[str, int]:
        """The newest count of each word that was printed."""
        return {
            word: int(count) for word, count in re.findall(r"[│|] (\w+) +[│|] (\d+) +[│|]", self.printed(application))
        }

    def savepoint_in(self, answer: tuple[int, str]) -> str:
        assert shows(answer, rf"^  {self.hdfs}/sp/savepoint-[0-9a-f]{{8}}-\w+$")
        return re.findall(r"^  (\S+/sp/savepoint-\S+)$", answer[1], re.MULTILINE)[-1]

    def wait_for(self, seen: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + SECONDS
        while not seen():
            assert time.monotonic() < end, f"{what}\n{self.terminal.screen}\n{self.yarn.logs()}"
            time.sleep(0.5)


class Words:
    """The socket server on this machine. It sends each line once, to the driver that is connected."""

    def __init__(self, peer: Peer, session: Session) -> None:
        self.peer = peer
        self.session = session
        self.sent: Counter[str] = Counter()

    def await_driver(self) -> None:
        self.session.wait_for(self.peer.was_asked_again, "no driver asks for lines")

    def send(self, line: str) -> None:
        self.peer.send(f"{line}\n".encode())
        self.sent.update(line.split())

    def are_counted(self, application: str, *words: str) -> None:
        """Wait until the newest count of these words is printed."""
        wanted = {word: self.sent[word] for word in words}
        has = self.session.counts
        self.session.wait_for(lambda: wanted.items() <= has(application).items(), f"{wanted}: {has(application)}")


@pytest.fixture
def session(yarn: YarnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    for name, value in yarn.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(yarn.bin), prepend=":")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}")
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    with opened(tmp_path, "counts") as terminal:
        try:
            yield Session(terminal, yarn)
        finally:
            yarn.end_applications()


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer


def test_the_checkpoint_program_counts_on_when_its_driver_is_killed(session: Session, peer: Peer) -> None:
    words, hdfs, terminal = Words(peer, session), session.hdfs, session.terminal
    program = f"checkpoint_config.py --host localhost --port {peer.port}"
    application = session.submit(f"-D savepoints.dir={hdfs}/sp", program)
    job = session.job_in(application)
    words.await_driver()
    words.send("tide and gate")
    words.are_counted(application, "tide", "and", "gate")
    before = len(files_below(session, "chk/counts/ingest"))
    words.send("and sea")
    session.wait_for(lambda: len(files_below(session, "chk/counts/ingest")) > before, "the line is not safe")
    session.kill_driver(job, application)
    words.await_driver()
    words.are_counted(application, "and", "sea")
    words.send("tide and gate sea")
    words.are_counted(application, "tide", "and", "gate", "sea")
    assert session.counts(application) == words.sent
    assert shows(terminal.type(f"yarn logs -applicationId {application} -log_files stdout"), r"sea +[│|] +2")
    session.savepoint_in(terminal.type(f"tidegate savepoint {job} {hdfs}/sp -yid {application}"))
    saved = session.savepoint_in(terminal.type(f"tidegate stop -p {hdfs}/sp {job} -yid {application}"))

    line = (
        f"tidegate run -d -s {saved} -yid {application} --dir {hdfs}/chk -D savepoints.dir={hdfs}/sp examples/{program}"
    )
    assert shows(terminal.type(line), r"^job counts: process \d+")
    words.await_driver()
    words.send("sea")
    shown = re.compile(r"[│|] sea +[│|] +3 ")
    session.wait_for(lambda: any(shown.search(log.read_text()) for log in logs_here(terminal)), "sea is not counted")
    assert shows(terminal.type(f"tidegate stop --savepointPath {job}"), "done")
    assert typed(terminal, session) == told("checkpoint_config.py")


def test_the_state_of_the_savepoint_program_moves_into_another_backend(session: Session, peer: Peer) -> None:
    words, hdfs, terminal = Words(peer, session), session.hdfs, session.terminal
    program = f"savepoint.py --print --host localhost --port {peer.port}"
    application = session.submit("-Dstate.backend=hashmap -c com.example.SavepointDemo", program)
    job = session.job_in(application)
    words.await_driver()
    words.send("sea sand sea")
    words.are_counted(application, "sea", "sand")
    assert session.counts(application) == words.sent
    saved = session.savepoint_in(terminal.type(f"tidegate cancel -s {hdfs}/sp {job} -yid {application}"))
    for place in (saved, f"{hdfs}/chk/{job}/chk-{{N}}", f"{hdfs}/chk/words/checkpoints/{{N}}"):
        point = place.format(N=newest(session)) if "{N}" in place else place
        options = f"-s {point} -Dstate.backend=rocksdb -c com.example.SavepointDemo"
        application = session.submit(options, program)
        assert session.job_in(application) == job
        words.await_driver()
        words.send("sand sea wind")
        words.are_counted(application, "sea", "sand", "wind")
        assert session.counts(application) == words.sent
        assert shows(terminal.type(f"tidegate info words -yid {application}"), "state.backend +rocksdb", "^retained")
        assert shows(terminal.type(f"tidegate cancel {job} -yid {application}"), "cancel words: done")
    assert typed(terminal, session) == told("savepoint.py")


def test_kafka_to_kafka_through_a_kill_and_what_its_reader_prints(session: Session, tmp_path: Path) -> None:
    hdfs, terminal = session.hdfs, session.terminal
    with Broker.start(tmp_path / "brokers", brokers=3, port=0) as broker:
        servers = broker.servers
        module = "--conf spark.submit.pyFiles=examples/topics.py"
        application = session.submit(module, f"kafka_exactly_once.py --servers {servers}")
        reader = session.submit(module, f"read_committed.py --servers {servers}")
        job = session.job_in(application)
        session.job_in(reader)
        # each begins behind the newest row, which it has asked for by then
        session.wait_for(lambda: len(starts(session)) == 2, "the first positions are not known")
        send = f"python examples/kafka_exactly_once.py --servers {servers} --send"
        assert shows(terminal.type(f"{send} 300"), "300 rows sent")
        session.wait_for(lambda: "row 0 " in session.printed(reader), "nothing is read")
        session.kill_driver(job, application)
        assert shows(terminal.type(f"{send} 100"), "100 rows sent")
        session.wait_for(lambda: len(rows_in(session.printed(reader))) >= 400, "rows are missing")
        assert shows(terminal.type(f"yarn logs -applicationId {reader} -log_files stdout"), "row 299 ")
        session.savepoint_in(terminal.type(f"tidegate stop --savepointPath {hdfs}/sp {job}"))
        assert shows(terminal.type(f"tidegate cancel read-ws -yid {reader}"), "done")
        sent = Counter(row.value or b"" for row in read_all(servers, "topic_1"))
        assert sent.total() == 400
        assert Counter(row.value or b"" for row in read_all(servers, "ws")) == sent
    assert Counter(row.encode() for row in rows_in(session.printed(reader))) == sent
    assert typed(terminal, session) == told("kafka_exactly_once.py")


def starts(session: Session) -> list[str]:
    return [path for path in files_below(session, "chk") if path.endswith("/g1/ledger/start")]


def rows_in(printed: str) -> list[str]:
    return re.findall(r"[│|] (row \d+) +[│|]", printed)


def files_below(session: Session, folder: str) -> list[str]:
    """The paths of all files below a folder of HDFS."""
    place = f"/{session.terminal.folder.name}/{folder}"
    try:
        found = hdfs_native.Client(session.yarn.hdfs.uri).list_status(place, recursive=True)
    except FileNotFoundError:
        return []
    return [each.path for each in found if not each.isdir]


def newest(session: Session) -> int:
    """The newest retained checkpoint."""
    found = files_below(session, "chk/words/checkpoints")
    return max(int(number) for path in found for number in re.findall(r"/checkpoints/(\d+)/", path))


def logs_here(terminal: Terminal) -> list[Path]:
    """The logs of jobs in the background on this machine."""
    return [Path(each) for each in re.findall(r"^job \w+: process \d+, log (\S+)", terminal.screen, re.MULTILINE)]


def typed(terminal: Terminal, session: Session) -> list[str]:
    """The lines of the terminal, with the page's names for what is different each time."""
    lines = re.findall(r"^\$ (.*)$", terminal.screen, re.MULTILINE)
    for pattern, name in (
        (re.escape(session.hdfs), "hdfs://namenode:8020"),
        (r"--host localhost --port \d+", "--host gateway --port 7777"),
        (r"--servers \S+", "--servers kafka1:9092,kafka2:9092,kafka3:9092"),
        (r"kill -9 \d+", "kill -9 PROCESS"),
        (r"savepoint-[0-9a-f]{8}-\w+", "savepoint-XXXX-YYYY"),
        (r"application_\d+_\d+", "APP-ID"),
        (r"(chk-|checkpoints/)\d+", r"\1N"),
        (r"\b[0-9a-f]{8}\b", "JOB-ID"),
    ):
        lines = [re.sub(pattern, name, line) for line in lines]
    return lines


def told(program: str) -> list[str]:
    """The commands of one session of the page."""
    sessions = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    (found,) = [each for each in sessions if f"`examples/{program}`" in each.partition("\n\n")[2].partition("\n\n")[0]]
    blocks = re.findall(r"^```sh\n(.*?)^```", found, re.MULTILINE | re.DOTALL)
    lines = "".join(blocks).replace("\\\n    ", "").splitlines()
    return [line.partition("  #")[0] for line in lines]
