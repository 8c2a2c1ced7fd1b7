"""The ground on which is struck: the files that come and go, the driver that works, refusals and their remedies."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.campaign.drivers import CampaignFailed, Stable, wait_until
from tests.campaign.field import Field
from tests.campaign.places import QUERIES, Places
from tests.campaign_files.checker import untrue
from tests.campaign_files.known import Known, Version
from tests.campaign_files.outputs import visible
from tests.campaign_files.scene import SETTLE_SECONDS, Scene, archive

_DAY_NS = 86_400 * 10**9
_WRITING_SECONDS = 0.15
_FOLDERS = ("", "", "a/", "b/")
_SKIPPED_SHARE = 0.3
_REFUSALS_AT_MOST = 6


class Ground(Field):
    """The job's surroundings; `driver` is the one that runs it."""

    def __init__(self, places: Places, stable: Stable, chance: random.Random, scene: Scene) -> None:
        super().__init__(places, stable, chance)
        self.scene = scene
        self.known = Known(changed=scene.changed)
        self.refused_with: Counter[str] = Counter()
        """Refusals, each with its remedy."""
        self.let_go = 0
        self._serials = 0
        self._names = 0
        self._moves = 0
        self._in_a_row = 0
        self._seen: tuple[tuple[int, ...], dict[str, set[tuple[str, int]]]] = ((), {query: set() for query in QUERIES})
        scene.save(places)

    @property
    def folder(self) -> Path:
        return self.scene.folder(self.places)

    def set_scene(self, scene: Scene) -> None:
        """What the next start is told. The job does not run."""
        if scene.root != self.scene.root:
            self.folder.rename(scene.folder(self.places))
        self.scene = scene
        scene.save(self.places)

    # --- files ---------------------------------------------------------------------------------------------

    def feed(self, count: int = 1) -> int:
        """Add whole files, each of any time."""
        for _ in range(count):
            self.write(self.new_name())
        return self._names

    def new_name(self) -> str:
        """A path that no file ever had."""
        self._names += 1
        return f"{self.chance.choice(_FOLDERS)}f{self._names:05}.json"

    def move(self) -> None:
        """The folder is another one from now on. The job does not run."""
        self._moves += 1
        self.set_scene(replace(self.scene, root=f"input-{self._moves}"))

    def write(self, path: str) -> None:
        """A new content under this path, which appears whole and replaces what stands there."""
        version = self._version(path, self._some_time())
        self.known.there[path] = version
        self.put(version)

    def put(self, version: Version) -> None:
        """The very file, with its time."""
        path = self.folder / version.path
        path.parent.mkdir(exist_ok=True)
        hidden = path.with_name(f".{path.name}")
        hidden.write_bytes(version.data)
        os.utime(hidden, ns=(version.mtime_ns, version.mtime_ns))
        hidden.rename(path)
        self.known.there[version.path] = version

    def write_in_place(self) -> None:
        """A new file that is there in part for a while, which is shorter than files take to settle."""
        path = self.folder / self.new_name().rpartition("/")[2]
        data = Version(path.name, self._serials, 0).data
        begun = time.monotonic()
        with path.open("wb", buffering=0) as file:
            file.write(data[: len(data) // 2])
            time.sleep(_WRITING_SECONDS)
            file.write(data[len(data) // 2 :])
        slow = time.monotonic() - begun > SETTLE_SECONDS / 2
        version = self._version(path.name, path.stat().st_mtime_ns)
        self.known.there[path.name] = version
        if slow:
            self.known.unjudged.add(version)

    def _version(self, path: str, mtime_ns: int) -> Version:
        version = Version(path, self._serials, mtime_ns)
        self._serials += 1
        self.known.versions.append(version)
        return version

    def _some_time(self) -> int:
        """Now, days behind, or days ahead; no two files have the same."""
        days = self.chance.choice((0, 0, -1, -8, -400, 1, 30))
        return time.time_ns() // 1000 * 1000 + days * _DAY_NS + self._serials % 1000

    # --- progress ------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Wait until both queries have everything that is there."""
        self.wait(self._idle, "every file through both queries")
        self.note()
        self._in_a_row = 0

    def note(self) -> None:
        """Take in what is in lists, and which files the job has let go: both queries must show them."""
        for query in self.queries():
            self.known.note(query)
        gone = [version for version in self.known.there.values() if not version.is_at(self.folder)]
        for version in gone:
            if self.scene.after_done == "keep" or not self._is_through(version):
                raise CampaignFailed(f"the job let {version} go before both queries had it")
            del self.known.there[version.path]
            self.let_go += 1
            if self.scene.after_done == "archive" and not self._is_archived(version):
                raise CampaignFailed(f"{version} is not in the archive")

    def read(self) -> list[Version]:
        """What stands there and both queries have."""
        return [version for version in self.known.there.values() if self._is_through(version)]

    def open(self) -> set[Version]:
        """The files of epochs that are not done, in either query."""
        return {version for query in self.queries() for version in self.known.open(query)}

    def _is_through(self, version: Version) -> bool:
        return all((version.path, version.serial) in self._visible()[query] for query in QUERIES)

    def _is_archived(self, version: Version) -> bool:
        path = archive(self.places) / version.path
        return any(each.read_bytes() == version.data for each in path.parent.glob(f"{path.name}*"))

    def _visible(self) -> dict[str, set[tuple[str, int]]]:
        """Read again when an epoch is done since."""
        done = tuple(query.newest("ledger/done") for query in self.queries())
        if done != self._seen[0]:
            self._seen = done, {query: visible(self.places, query) for query in QUERIES}
        return self._seen[1]

    def _idle(self) -> bool:
        for query in self.queries():
            if query.newest("spark/offsets") > query.newest("ledger/done"):
                return False
            self.known.note(query)
            shown = self._visible()[query.uid]
            if any((each.path, each.serial) not in shown for each in self.known.expected(query.uid)):
                return False
        return True

    # --- refusals ------------------------------------------------------------------------------------------

    def wait(self, seen: Callable[[], object], what: str) -> None:
        """Wait for observed state. A job that is refused for a file gets its remedy."""

        def seen_or_over() -> bool:
            self.driver.listen()
            over, gone = self._refusal(), self.driver.gone
            if seen():  # looked at after it: what it did last counts
                return True
            if gone:
                raise CampaignFailed(f"the driver gave up, waited for: {what}\n{self.driver.last_words()}")
            if over is not None:
                self._remedy(*over)
            return False

        wait_until(seen_or_over, what, [self.driver])

    def _refusal(self) -> tuple[str, str] | None:
        said = [each for each in self.driver.said[self._went :] if each["event"] == "refused"]
        return (str(said[-1]["code"]), str(said[-1]["text"])) if said else None

    def _remedy(self, code: str, text: str) -> None:
        """The files are put back as they were, or the program skips them; then it starts again."""
        for query in self.queries():
            self.known.note(query)
        open_ = self.open()
        why = untrue(code, text, open_, self.known, self.folder, self.scene.lost)
        if why is not None:
            raise CampaignFailed(f"a refusal that is not true ({why}): {code} {text}\n{self.driver.last_words()}")
        self._in_a_row += 1
        if self._in_a_row > _REFUSALS_AT_MOST:
            raise CampaignFailed(f"refused again and again: {code} {text}")
        if self._in_a_row > 2 or self.chance.random() < _SKIPPED_SHARE:
            self.refused_with[f"{code}, then skipped"] += 1
            self.skip_lost()
        else:
            self.refused_with[f"{code}, then put back"] += 1
            for version in sorted(open_, key=lambda each: each.serial):
                if not version.is_at(self.folder):
                    self.put(version)
        self.go()

    def skip_lost(self) -> None:
        """The next start skips the files of open epochs that are not as they were."""
        self.set_scene(replace(self.scene, lost="skip"))
        for query in self.queries():
            wrong = {each for each in self.known.open(query) if not each.is_at(self.folder)}
            self.known.skipped[query.uid] |= wrong
