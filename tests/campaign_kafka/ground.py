"""The ground on which is struck: brokers, the input that is fed, the driver that works, and how far it is."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable

from tests.campaign.drivers import CampaignFailed, Driver, Stable, wait_until
from tests.campaign.field import Field
from tests.campaign.footprint import Phase
from tests.campaign.places import QUERIES, Places
from tests.campaign_kafka.epochs import Epochs
from tests.campaign_kafka.feeder import Feeder
from tests.campaign_kafka.schedule import Moment
from tidegate.core.errors import Code
from tidegate.testing.kafka import Broker

BOUND_SECONDS = 600.0
"""For everything that is waited for, while it does not move."""

_ANY_TIME_SECONDS = 3.0
_MOMENT_SECONDS = 0.03
_TRY_AGAIN_SECONDS = 1.0
_CODE = re.compile(r"TG-[A-Z-]+[A-Z]")
_BROKERS_AWAY = frozenset(
    {Code.KAFKA_UNREACHABLE.label, Code.SINK_UNUSABLE.label, Code.SINK_UNAVAILABLE.label, "too many failures"}
)
"""With these a job ends that has not found its brokers: whoever runs it starts it again."""


class Ground(Field):
    """The job's surroundings; `driver` is the one that runs it."""

    def __init__(
        self, places: Places, stable: Stable, chance: random.Random, broker: Broker, feeder: Feeder, epochs: Epochs
    ) -> None:
        self._spare_ordered = True  # by the stable itself
        super().__init__(places, stable, chance)
        self.broker = broker
        self.feeder = feeder
        self.epochs = epochs
        self.started_again: Counter[str] = Counter()

    def read_to(self) -> int:
        """How many records of the input are through both queries."""
        return min(self.epochs.read_to(query) for query in QUERIES)

    def catch_up(self) -> None:
        """Wait until all that was released is through both queries; while it moves it may take its time."""
        self.wait(self.feeder.is_done, "all of the input in its topic")
        before = -1
        while (now := self.read_to()) < self.feeder.confirmed:
            if now == before:
                raise CampaignFailed(f"no record was read for {BOUND_SECONDS:g} s\n{self.driver.last_words()}")
            before, end = now, time.monotonic() + BOUND_SECONDS
            self.wait(lambda before=before, end=end: self.read_to() > before or time.monotonic() > end, "progress")

    def go_on(self, records: int) -> None:
        """Release more input, and wait until some of it is through both queries: all that came before is, too."""
        more = self.feeder.confirmed + 1
        self.feeder.release(records)
        with self.timed("until it had gone on"):
            self.wait(lambda: self.read_to() >= more, f"record {more} of the input through both queries")
        self._order_spare()

    def await_moment(self, moment: Moment | None, *, at_once: bool = False) -> None:
        """Wait for the moment of a strike."""
        if moment is None:
            time.sleep(self.chance.random() * _ANY_TIME_SECONDS)
            return
        before = self.query(moment.query).newest(moment.record)
        with self.timed("until struck"):
            self.wait(lambda: self.query(moment.query).newest(moment.record) > before, f"a new record {moment}")
        if not at_once:
            time.sleep(self.chance.random() * _MOMENT_SECONDS)

    def phase(self, moment: Moment | None) -> Phase:
        """In which phase the newest epoch is: of the query that the strike has waited for, or of any."""
        query = self.query(moment.query) if moment else self.chance.choice(self.queries())
        return min(query.phases(query.newest("spark/offsets")), key=lambda phase: phase.name)

    def _next(self) -> Driver:
        self._order_spare()
        self._spare_ordered = False
        with self.timed("waiting for a warm driver"):
            return self.stable.take(order_next=False)

    def _order_spare(self) -> None:
        """Let a driver be made for the next start: while a job starts, it would take the processor from it."""
        if not self._spare_ordered:
            self.stable.order()
            self._spare_ordered = True

    def spare(self) -> Driver:
        """The driver that would be taken next; it must be given back."""
        return self.stable.take(order_next=False)

    def wait(self, seen: Callable[[], object], what: str) -> None:
        """Wait for observed state. A job that has ended because its brokers were away is started again."""

        def seen_or_over() -> bool:
            over, gone = self._refused_with(), self.driver.gone
            if seen():  # looked at after it: what it did last counts
                return True
            if gone or not over <= _BROKERS_AWAY:
                raise CampaignFailed(f"the driver gave up, waited for: {what}\n{self.driver.last_words()}")
            if over:
                self.started_again.update(over)
                time.sleep(_TRY_AGAIN_SECONDS)
                self.go()
            return False

        wait_until(seen_or_over, what, [self.driver], BOUND_SECONDS)

    def _refused_with(self) -> set[str]:
        """The codes with which the job has ended that was started last; nothing while it runs."""
        self.driver.listen()
        said = [each for each in self.driver.said[self._went :] if each["event"] == "refused"]
        codes = {str(each["code"]) for each in said}
        if Code.START_REFUSED.label in codes:
            codes |= {code for each in said for code in _CODE.findall(each["text"])}
        return codes - {Code.START_REFUSED.label}
