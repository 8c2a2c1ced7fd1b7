"""The field on which is struck: input that is fed file by file, the driver that works, strikes that wait for it."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tests.campaign.checker import InputRow
from tests.campaign.drivers import LOOK_SECONDS, CampaignFailed, Driver, Drivers, wait_until
from tests.campaign.footprint import Footprint, footprints, patiently
from tests.campaign.places import Places
from tests.campaign.stores.store import Striker
from tidegate.disk.strike_folder import StrikeFolder, TakenBy
from tidegate.storages.opening import open_storage

SeenT = TypeVar("SeenT")
_WORDS = [f"w{index}" for index in range(12)]
ROWS_AT_LEAST = 8
"""Of a file: each with another word."""

_MORE_FILES_AT_MOST = 60
"""Records that are not on a disk go twenty epochs together, and a driver that was killed counts from its start again:
some places are passed once in forty epochs."""

_IDLE_SECONDS = 0.3
_REMOTE_LOOK_SECONDS = 0.1
"""A look is some requests to the storage."""

_HIDDEN = ".input"
"""A file that no source of files reads."""


class Field:
    """The job's surroundings; `driver` is the one that runs it."""

    def __init__(
        self,
        places: Places,
        stable: Drivers,
        chance: random.Random,
        driver: Driver | None = None,
        *,
        store: Striker | None = None,
        rows_per_file: int = ROWS_AT_LEAST,
    ) -> None:
        """`store`: what strikes the store of the sinks. `rows_per_file`: those behind the first ones have no word."""
        self.places = places
        self.stable = stable
        self.store = store
        self._wordless = [None] * (rows_per_file - ROWS_AT_LEAST)
        self.chance = chance
        self.files: list[list[InputRow]] = []
        self.strikes = StrikeFolder(places.strikes)
        self.seconds: dict[str, float] = defaultdict(float)
        self.driver = driver or self._next()
        self._look_seconds = LOOK_SECONDS if places.job.is_local else _REMOTE_LOOK_SECONDS
        self._posted = 0
        self._went = 0
        self._began_ns = time.time_ns()
        if places.on_cluster:
            self._put(_HIDDEN, b"")  # a storage has no empty folders
        else:
            places.input.mkdir()

    # --- input and progress --------------------------------------------------------------------------------

    @property
    def newest(self) -> int:
        """The epoch of the newest file."""
        return len(self.files) - 1

    def feed(self, count: int = 1) -> int:
        """Add files; the epoch of the last one. Spark takes them in the order of their times, in milliseconds."""
        for _ in range(count):
            number = len(self.files)
            words = [*self.chance.sample(_WORDS, ROWS_AT_LEAST), *self._wordless]
            first = number * len(words)
            rows = [InputRow(first + i, word, self.chance.randrange(1000)) for i, word in enumerate(words)]
            lines = [json.dumps({"number": row.number, "word": row.word, "value": row.value}) for row in rows]
            self._write(number, "".join(f"{line}\n" for line in lines))
            self.files.append(rows)
        return self.newest

    def _write(self, number: int, text: str) -> None:
        name = f"{number:05}.json"
        if self.places.on_cluster:
            self._put(name, text.encode())
            return
        hidden = self.places.input / f".{name}"
        hidden.write_text(text)
        arrived = self._began_ns + number * 1_000_000
        os.utime(hidden, ns=(arrived, arrived))
        hidden.rename(self.places.input / name)

    def _put(self, name: str, data: bytes) -> None:
        storage = open_storage(self.places.input_folder)
        patiently(lambda: storage.put_if_absent(name, data))

    def feed_slowly(self, count: int) -> None:
        """Add files, each when the one before is through."""
        for _ in range(count):
            self.catch_up()
            self.feed()
        self.catch_up()

    def queries(self) -> list[Footprint]:
        return footprints(self.places)

    def query(self, uid: str) -> Footprint:
        return next(query for query in self.queries() if query.uid == uid)

    def complete(self) -> int:
        """The newest epoch that is complete in both queries."""
        return min(query.complete() for query in self.queries())

    def catch_up(self) -> None:
        """Wait until every file is through both queries."""
        self.wait(lambda: self.complete() >= self.newest, f"epoch {self.newest} complete")

    # --- drivers -------------------------------------------------------------------------------------------

    def start_next(self) -> Driver:
        """The next warm driver takes the job over."""
        self.driver = self._next()
        self.go()
        return self.driver

    def go(self) -> None:
        """The driver runs the job from now on."""
        self._went = self._since()
        self.driver.tell(do="go", checkpoints=str(self.places.job.parent))

    def stop(self) -> None:
        """Stop the job cleanly, with every file through; its driver lives on."""
        self.catch_up()
        since = self._since()
        self.driver.tell(do="stop")
        self.wait(lambda: self.driver.has_said("stopped", since), "a clean stop")

    def refused(self, driver: Driver, checkpoints: Path | None = None) -> str:
        """The code with which a start of the job by `driver` is refused."""
        driver.listen()
        since = len(driver.said)
        driver.tell(do="go", checkpoints=str(checkpoints or self.places.job.parent))
        said = ("refused", "started", "failed")
        wait_until(lambda: any(driver.has_said(each, since) for each in said), "an answer to a start", [driver])
        answer = driver.said[since]
        if answer["event"] != "refused":
            raise CampaignFailed(f"a start that has to be refused: {answer}\n{driver.last_words()}")
        return str(answer["code"])

    def wait_running(self) -> None:
        """Wait until recovery is over and the queries have been started."""
        self.wait(self._runs, "a running job")

    def wait(self, seen: Callable[[], object], what: str) -> None:
        """Wait for observed state; a driver that ends by itself or gives up meanwhile fails the campaign."""

        def seen_or_over() -> bool:
            over = self.driver.has_said("refused", self._went) or self.driver.gone
            if seen():  # looked at after it: what it did last counts
                return True
            if over:
                raise CampaignFailed(f"the driver gave up, waited for: {what}\n{self.driver.last_words()}")
            return False

        wait_until(seen_or_over, what, [self.driver], look_seconds=self._look_seconds)

    def wait_gone(self, driver: Driver) -> None:
        """Wait until its Python process has ended."""

        def gone() -> bool:
            driver.listen()  # its socket may be closed a moment before its locks
            return driver.gone and not driver.is_alive(driver.process)

        wait_until(gone, "the end of a driver", [driver])

    @contextmanager
    def timed(self, what: str) -> Generator[None]:
        """Add the time that the block takes to `seconds`."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[what] += time.monotonic() - begun

    # --- strikes -------------------------------------------------------------------------------------------

    def post(self, strike: str) -> str:
        """Let a strike wait; its name."""
        self._posted += 1
        name = f"{self._posted:05}"
        self.strikes.post(name, strike)
        return name

    def wait_taken(self, name: str) -> TakenBy:
        """Wait until somebody has taken the strike; some more files come when the job has nothing to do."""
        return self.feed_until(lambda: self.strikes.taken_by(name), f"strike {name} taken")

    def feed_until(self, seen: Callable[[], SeenT | None], what: str) -> SeenT:
        """Wait for what is seen then; some more files come when the job has nothing to do."""
        more, idle_since = 0, time.monotonic()
        while (found := seen()) is None:
            self.wait(lambda: seen() is not None or self._idle(), f"{what}, or an idle job")
            if not self._idle():
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > _IDLE_SECONDS:
                if more == _MORE_FILES_AT_MOST:
                    raise CampaignFailed(f"not in {more} epochs: {what}\n{self.driver.last_words()}")
                more, idle_since = more + 1, time.monotonic()
                self.feed()
            time.sleep(self._look_seconds)
        return found

    def wait_stopped(self, name: str) -> None:
        """Wait until the driver has taken the strike and stands still."""
        self.wait_taken(name)
        wait_until(self.driver.is_stopped, "a driver that stands still", [self.driver])

    @contextmanager
    def between_runs(self, first: str = "compute.before", action: str = "error") -> Generator[None]:
        """The job fails at `first` and stands still before it claims its next run; goes on behind the block.

        Its JVM lives, and no query runs.
        """
        self.wait_running()
        failing = self.post(f"{first}@{self.newest + 1}={action}")
        still = self.post("run.before=pause")
        self.feed()
        self.wait_taken(failing)
        self.wait_stopped(still)
        yield
        self.driver.send(signal.SIGCONT, self.driver.process)

    def _runs(self) -> bool:
        self.driver.listen()
        return [each["event"] for each in self.driver.said[self._went :]][-1:] == ["started"]

    def _idle(self) -> bool:
        return self.complete() >= self.newest

    def _since(self) -> int:
        self.driver.listen()
        return len(self.driver.said)

    def _next(self) -> Driver:
        with self.timed("waiting for a warm driver"):
            return self.stable.take()
