"""No client of a test outlives it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tidegate.sinks.kafka.producers import _PRODUCERS, Producers
from tidegate.sinks.kafka.wires import _WIRES


@pytest.fixture(scope="module", autouse=True)
def no_connection_outlives_its_brokers() -> Iterator[None]:
    """A client whose brokers have gone looks for them for ever, and logs it into the output of other tests."""
    yield
    while _WIRES:
        _WIRES.popitem()[1].close()


@pytest.fixture(autouse=True)
def no_producer_outlives_its_test() -> Iterator[None]:
    """A process holds its slots for life, and this one writes for hundreds of sinks."""
    yield
    no_more_producers()


def no_more_producers() -> None:
    """As if this process had ended: its slots are free, and nothing ends what is open."""
    while _PRODUCERS:
        _give_up(_PRODUCERS.popitem()[1])


def _give_up(producers: Producers) -> None:
    for held in producers._held:
        for thread in held.opening.values():
            thread.join()
        held.open.clear()
        os.close(held.slot._descriptor)
