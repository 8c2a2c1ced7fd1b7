"""What no crash does: altered records, changed programs, sinks of others. The right outcome is a certain refusal.

Each case tampers once with a run, before the first step that its `when` fits, and names the error that must stop a
driver; None where the run must end well all the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from tests.world.checker import check
from tests.world.configurations import CONFIGURATIONS, Configuration, Work
from tests.world.disk import Disk
from tests.world.driver import Driver, Thread
from tests.world.engine import Do
from tests.world.sinks import StagedSink
from tests.world.world import World
from tidegate.core.effects import Effect
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import FinishedThrough, Position, Prepared, Run, Value, decode, encode


@dataclass(frozen=True, slots=True)
class Hostile:
    """One tampering, and the error that it must lead to."""

    name: str
    configuration: str
    when: Callable[[Effect | Do], bool]
    tamper: Callable[[World, Driver], None]
    expects: Code | None


def run_hostile(hostile: Hostile) -> list[str]:
    """What is wrong with the outcome; empty when it is the expected one."""
    world = _HostileWorld(_configuration(hostile.configuration), hostile)
    history = world.run()
    found = {error.catalogue_entry for error in world.stops if isinstance(error, TidegateError)}
    if hostile.expects is None:
        return check(history)
    if hostile.expects not in found:
        return [f"expected {hostile.expects.label}, found {sorted(code.label for code in found)}"]
    return history.premature


def _configuration(name: str) -> Configuration:
    if name == "shapes":
        return Configuration(
            name=name, work=Work.STATELESS, sinks="s", positions=("number", "list", "flag", "named", "pair", "none")
        )
    return CONFIGURATIONS[name]


class _HostileWorld(World):
    def __init__(self, configuration: Configuration, hostile: Hostile) -> None:
        super().__init__(configuration)
        self._hostile: Hostile | None = hostile

    def _step(self, driver: Driver, thread: Thread) -> None:
        hostile = self._hostile
        if hostile is not None and hostile.when(thread.effect):
            self._hostile = None
            hostile.tamper(self, driver)
            if not driver.alive:
                return
        super()._step(driver, thread)


# --- when --------------------------------------------------------------------------------------------------


def _at(point: str, name: str = "", count: int = 1) -> Callable[[Effect | Do], bool]:
    """The `count`-th effect with this point, whose name (of a file or a sink) begins with `name`."""
    left = [count]

    def fits(effect: Effect | Do) -> bool:
        named = str(getattr(effect, "name", getattr(effect, "sink", "")))
        if effect.point != point or not named.startswith(name):
            return False
        left[0] -= 1
        return left[0] == 0

    return fits


# --- what --------------------------------------------------------------------------------------------------


def _change(name: str, change: Callable[[bytes], bytes], *, kill: bool = True) -> Callable[[World, Driver], None]:
    """Another content for a file that is there."""

    def tamper(world: World, driver: Driver) -> None:
        world.disk.put(name, change(world.disk.read_bytes(name) or b""))
        if kill:
            driver.kill()

    return tamper


def _remove(name: str, *, kill: bool = True) -> Callable[[World, Driver], None]:
    def tamper(world: World, driver: Driver) -> None:
        world.disk.delete(name)
        if kill:
            driver.kill()

    return tamper


def _remove_folder(name: str) -> Callable[[World, Driver], None]:
    def tamper(world: World, driver: Driver) -> None:
        world.disk.remove([f"{name}/{each}" for each in world.disk.names(name)])

    return tamper


def _query(**changes: object) -> Callable[[World, Driver], None]:
    """The next start is of another program."""

    def tamper(world: World, driver: Driver) -> None:
        world.query = dataclasses.replace(world.query, **changes)  # pyright: ignore[reportArgumentType]
        driver.kill()

    return tamper


def _file_position(**changes: object) -> Callable[[World, Driver], None]:
    """Other evidence in the files sink."""

    def tamper(world: World, driver: Driver) -> None:
        name = "sink/f1/position"
        standing = world.disk.read(name)
        if isinstance(standing, Position):
            world.disk.put(name, msgspec.structs.replace(standing, **changes))
        driver.kill()

    return tamper


def _older_evidence(world: World, driver: Driver) -> None:
    """A new generation, and a sink that shows rows of the one before."""
    shown = Position(job_id=world.query.job_id, generation=world.query.generation, epoch=4, digest="x")
    world.disk.put("sink/f1/position", shown)
    _query(generation=world.query.generation + 1)(world, driver)


def _lose_position(world: World, driver: Driver) -> None:
    world.disk.delete("sink/f1/position")
    driver.kill()


def _other_ledger_row(world: World, driver: Driver) -> None:
    sink = world.sinks[0]
    if isinstance(sink, StagedSink):
        sink.table.ledger[0, 0] = ()


def _lose_transactions_and_journals(world: World, driver: Driver) -> None:
    world.sinks[1].time_out()
    _remove_folder("sink/k1/stage/0/0")(world, driver)


def _second_prepared(world: World, driver: Driver) -> None:
    record = _prepared(world.disk)
    world.disk.put("ledger/prepared/0.7", encode(msgspec.structs.replace(record, run=7)))
    driver.kill()


def _other_prepared(world: World, driver: Driver) -> None:
    record = _prepared(world.disk)
    world.disk.put("ledger/prepared/0.1", encode(msgspec.structs.replace(record, committables=())))
    driver.kill()


def _prepared(disk: Disk) -> Prepared:
    return decode(Prepared, disk.read_bytes("ledger/prepared/0.1") or b"", "prepared")


def _strangers(world: World, driver: Driver) -> None:
    if driver.engine is not None:
        driver.engine.run_record = Run(run=99, token="other", host="", process=0, since="")


def _lose_first_commits(world: World, driver: Driver) -> None:
    for name in ("spark/commits/0", "ledger/decided/0"):
        world.disk.delete(name)
    driver.kill()


def _as(kind: str) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(b"tidegate prepared", b"tidegate " + kind.encode(), 1)


def _with_body(body: bytes) -> Callable[[bytes], bytes]:
    checksum = hashlib.sha256(body).hexdigest().encode()
    return lambda data: b"tidegate prepared 1 sha256:" + checksum + b"\n" + body


def _text(data: bytes) -> Callable[[bytes], bytes]:
    return lambda _: data


class _Nothing(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of no record."""


_NO_FIELDS: Final = msgspec.json.encode(_Nothing())
_PREPARED: Final = "ledger/prepared/0.1"
_OFFSETS: Final = "spark/offsets/1"


def hostile_cases() -> list[Hostile]:
    """All of them, made anew: a `when` counts what passes."""
    return [*_records(), *_programs(), *_sinks(), *_logs(), *_epochs()]


def _records() -> list[Hostile]:
    changes: list[tuple[str, Callable[[bytes], bytes], Code]] = [
        ("cut in its header", lambda data: data[:20], Code.RECORD_CORRUPT),
        ("cut in its body", lambda data: data[:-9], Code.RECORD_CORRUPT),
        ("of another kind", _as("done"), Code.RECORD_CORRUPT),
        ("with other fields", _with_body(_NO_FIELDS), Code.RECORD_CORRUPT),
        ("of a newer release", lambda data: data.replace(b" 1 sha", b" 2 sha", 1), Code.RECORD_NEWER),
    ]
    found = [
        Hostile(f"a prepared record {name}", "stateful-sk", _at("commits.seen"), _change(_PREPARED, change), code)
        for name, change, code in changes
    ]
    gone = _remove("ledger/start", kill=False)
    return [
        *found,
        Hostile("*start* is gone, which the run has read", "stateful-sk", _at("sync", count=2), gone, None),
        Hostile("no prepared record", "stateful-sk", _at("commits.seen"), _remove(_PREPARED), Code.LEDGER_HOLE),
        Hostile("the chosen one is gone", "stateful-sk", _at("commit"), _remove(_PREPARED), Code.LEDGER_HOLE),
        Hostile("the chosen one is another", "stateful-sk", _at("commit"), _other_prepared, Code.LEDGER_HOLE),
        Hostile("two fit", "stateful-sk", _at("commits.seen"), _second_prepared, Code.LEDGER_AMBIGUOUS),
        Hostile("commits/0 is gone", "stateless-sf", _at("done"), _lose_first_commits, Code.LEDGER_HOLE),
    ]


def _programs() -> list[Hostile]:
    return [
        Hostile("other sources", "stateful-sk", _at("done"), _query(sources=("other",)), Code.SOURCES_CHANGED),
        Hostile("other sinks", "stateful-sk", _at("done"), _query(sinks=("k1", "s0")), Code.SOURCES_CHANGED),
        Hostile("one source in two places", "stateless-sf", _at("run"), _query(sources=("source0", "source0")), None),
        Hostile("another job", "stateful-sk", _at("done"), _query(job_id="j1"), Code.JOB_MISMATCH),
    ]


def _sinks() -> list[Hostile]:
    files, done = "stateful-sf-remote", "done"
    return [
        Hostile("a sink of others", files, _at(done), _file_position(job_id="j1"), Code.SINK_OF_ANOTHER_JOB),
        Hostile("a sink ahead", files, _at(done), _file_position(epoch=9), Code.SINK_AHEAD),
        Hostile("a query that begins over", files, _at("run"), _older_evidence, Code.SINK_AHEAD),
        Hostile("a sink behind", files, _at(done, count=3), _file_position(epoch=0), Code.SINK_BEHIND),
        Hostile("an emptied sink", files, _at(done, count=3), _lose_position, Code.SINK_BEHIND),
        Hostile("another timeline", files, _at("gc.clean", count=3), _file_position(digest="x"), Code.SECOND_TIMELINE),
        Hostile("another ledger row", "stateful-sk", _at("commit", "s0"), _other_ledger_row, Code.SECOND_TIMELINE),
        Hostile(
            "a lost stage",
            "stateful-sk",
            _at("commit", "s0"),
            _remove_folder("sink/s0/stage/0/0"),
            Code.TRANSACTION_LOST,
        ),
        Hostile(
            "a lost folder", files, _at("commit", "f1"), _remove_folder("sink/f1/stage/0/0"), Code.TRANSACTION_UNKNOWN
        ),
        Hostile(
            "a lost journal",
            "stateful-sk",
            _at("commit", "k1"),
            _lose_transactions_and_journals,
            Code.TRANSACTION_LOST,
        ),
    ]


def _logs() -> list[Hostile]:
    """What is torn and undecided goes aside, whatever stands in it."""
    torn = [
        b"",
        b"v1",
        b"v2\n{}\n1",
        b"v1\n{\n1",
        b"v1\n[]\n1",
        b"v1\n{}\n{",
        b"\xff\xfe",
        b"v1\n{}\n1\n2",
        b"v1\n{}\n-",
    ]
    found = [
        Hostile(
            f"offsets/1 is {data!r}", "stateful-sk", _at("task.open", count=3), _change(_OFFSETS, _text(data)), None
        )
        for data in torn
    ]
    cut = [b"v1", b"v2\n[]", b"v9\n{}", b"v2\n{}\n{}"]
    return [
        *found,
        *(
            Hostile(
                f"commits/0 is {d!r}", "stateful-sk", _at("commits.seen"), _change("spark/commits/0", _text(d)), None
            )
            for d in cut
        ),
        Hostile(
            "a torn entry goes while it is put aside",
            "stateful-sk",
            _at("task.open", count=3),
            _torn_until_it_goes,
            None,
        ),
        Hostile(
            "an entry is completed while it is put aside",
            "stateful-sk",
            _at("task.open", count=3),
            _torn_until_it_is_put_aside,
            None,
        ),
        Hostile("positions of every form", "shapes", _at("done", count=2), lambda _, driver: driver.kill(), None),
    ]


def _epochs() -> list[Hostile]:
    def at_sync(change: Callable[[bytes], bytes]) -> tuple[Callable[[Effect | Do], bool], Callable[..., None]]:
        return _at("sync", count=2), _change(_OFFSETS, change, kill=False)

    back = at_sync(lambda data: data[:-1] + b"0")
    more = at_sync(lambda data: data + b"\n7")
    there = _at("sync", count=2), _change("ledger/prepared/1.1", _text(b""), kill=False)
    missing = _at("sync", count=2), _remove(_OFFSETS, kill=False)
    again = _at("spark.start")
    remote = "stateful-sf-remote"
    other = _at("sync", count=2), _change(_OFFSETS, lambda data: data[:-1] + b"9", kill=False)
    return [
        Hostile("other offsets than this run's", remote, *other, Code.EPOCH_TORN),
        Hostile("another's end of the last epoch", remote, _at("done"), _odd_start, Code.EPOCH_TORN),
        Hostile("another's state", remote, _at("done"), _odd_base, Code.EPOCH_TORN),
        Hostile("a source goes back", "stateful-sk", *back, Code.OFFSETS_BACKWARDS),
        Hostile("one position more", "stateful-sk", *more, Code.EPOCH_TORN),
        Hostile("an odd start", "stateful-sk", _at("done"), _odd_start, Code.OFFSETS_BACKWARDS),
        Hostile("prepared already", "stateful-sk", *there, Code.EPOCH_TORN),
        Hostile("no offsets entry", "stateful-sk", *missing, Code.EPOCH_TORN),
        Hostile("committables of another run", "stateful-sk", _at("task.open"), _strangers, Code.EPOCH_TORN),
        Hostile("Spark goes back", "stateful-sk", again, _finished_already, Code.EPOCH_FINISHED),
    ]


def _torn_until_it_is_put_aside(world: World, driver: Driver) -> None:
    """Whoever wrote the torn entry completes it between recovery's look and its rename."""
    whole = world.disk.read_bytes(_OFFSETS) or b""
    _before_the_rename(world, driver, lambda: world.disk.put(_OFFSETS, whole))


def _torn_until_it_goes(world: World, driver: Driver) -> None:
    """Somebody else puts the torn entry aside between recovery's look and its rename."""
    _before_the_rename(world, driver, lambda: world.disk.delete(_OFFSETS))


def _before_the_rename(world: World, driver: Driver, act: Callable[[], None]) -> None:
    world.disk.put(_OFFSETS, b"v1")
    driver.kill()
    rename = world.disk.set_aside

    def act_and_rename(name: str) -> str | None:
        act()
        world.disk.set_aside = rename
        return rename(name)

    world.disk.set_aside = act_and_rename


def _odd_start(world: World, driver: Driver) -> None:
    """Spark holds another position than the one where the last epoch ended, and none that is JSON."""
    if driver.engine is not None:
        driver.engine.odd_start = "nowhere"


def _odd_base(world: World, driver: Driver) -> None:
    """Spark has loaded the state that another run has computed."""
    if driver.engine is not None:
        driver.engine.odd_base = "other ids"


def _finished_already(world: World, driver: Driver) -> None:
    """As if the log had been restored from an older copy between recovery and Spark's look."""
    world.disk.put("ledger/finished_through", encode(FinishedThrough(epoch=0)))
