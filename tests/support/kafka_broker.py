"""One broker for all Kafka tests of a run of pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidegate.testing.kafka import Broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Shared: make topics of your own (`make_topic`), and never stop, kill or pause it."""
    with Broker.start(tmp_path_factory.mktemp("broker"), detour=True) as broker:
        yield broker
