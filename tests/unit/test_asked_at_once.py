"""A job that is asked to stop and to be cancelled at the same time, by two threads."""

from __future__ import annotations

import threading
from functools import partial

from tidegate.operate.endings import AskedOf, EndMode
from tidegate.spark.asked_end import AskedEnd


def test_a_cancel_that_comes_within_a_stop_is_not_turned_into_one():
    asked = SlowEnd()
    stop = threading.Thread(target=partial(asked.ask, EndMode.STOP, 60.0), name="stop")
    cancel = threading.Thread(target=partial(asked.ask, EndMode.CANCEL, 0.0), name="cancel")
    stop.start()
    assert asked.looked.wait(10)
    cancel.start()
    for each in (cancel, stop):
        each.join(10)
    assert asked.ending is EndMode.CANCEL


def test_of_several_times_the_shortest_counts_but_the_first_one_replaces_the_setting():
    asked = AskedEnd(5.0, goes_on_draining=False)
    assert not asked.ask(EndMode.STOP, 60.0)
    assert asked.timeout_seconds == 60.0
    assert asked.ask(EndMode.STOP, 90.0)
    assert asked.timeout_seconds == 60.0


def test_what_an_earlier_start_was_asked_is_nobodys_request_here():
    asked = AskedEnd(5.0, goes_on_draining=True)
    assert (asked.ending, asked.is_asked(), asked.asked_of) == (EndMode.DRAIN, True, AskedOf.ANOTHER)
    assert not asked.ask(EndMode.STOP, 60.0)
    assert (asked.ending, asked.asked_of) == (EndMode.DRAIN, AskedOf.THIS_START)


class SlowEnd(AskedEnd):
    """Its stop looks at how the job is to end, and then takes long, if nobody waits for it."""

    def __init__(self) -> None:
        self.looked = threading.Event()
        self.cancelled = threading.Event()
        super().__init__(5.0, goes_on_draining=False)

    @property
    def ending(self) -> EndMode:  # pyright: ignore[reportIncompatibleVariableOverride]
        found = self._how
        if threading.current_thread().name == "stop":
            self.looked.set()
            self.cancelled.wait(0.3)
        return found

    @ending.setter
    def ending(self, ending: EndMode) -> None:
        self._how = ending
        if ending is EndMode.CANCEL:
            self.cancelled.set()
