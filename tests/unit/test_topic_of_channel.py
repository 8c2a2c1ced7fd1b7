"""The topic of a channel as the driver sees it: the end of an epoch, the begin of a generation, what may be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.graphs.topic import PlayedChannel, Topic, Transacted
from tidegate.channels import topic as module
from tidegate.channels.topic import TopicOfChannel
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SinkIdentity
from tidegate.kafka.clients import Clients
from tidegate.sources.kafka.topics import FoundPartitions
from tidegate.storages.schemes import Folder

CLIENTS = Clients("nowhere:9092")
WRITER = SinkIdentity(job="job", job_id="1", generation=1, query="write", sink="words")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = Topic(lambda: None, lambda: None)
    monkeypatch.setattr(module, "Topics", lambda *_arguments: topic)
    monkeypatch.setattr(module, "ANSWER_KEPT_SECONDS", 0.0)
    return topic


def driver(folder: Path) -> TopicOfChannel:
    return TopicOfChannel("words", Folder.of(folder), "words", CLIENTS)


def written(played: Topic, *words: str, run: int = 1) -> str:
    return played.begin(run, [(word,) for word in words])


def test_an_epoch_ends_behind_its_rows_although_an_open_transaction_of_a_dead_executor_is_before_them(
    played: Topic, tmp_path: Path
) -> None:
    """Readers wait before that transaction, until it has its marker, and the cut is right all the same."""
    channel = driver(tmp_path)
    assert channel.stand(1) == {}
    written(played, "left open")
    of_epoch = written(played, "sea", "sand")
    played.transactions[of_epoch] = Transacted.COMMITTED
    assert channel.stand(1) == {"words.1.0": 3}
    assert channel.readable() == {}
    played.abort(["0"])
    assert channel.readable() == {}
    assert channel.readable() == {"words.1.0": 4}
    assert channel.stand(1) == {"words.1.0": 4}


def test_a_generation_begins_behind_all_that_is_there_and_keeps_its_begin(played: Topic, tmp_path: Path) -> None:
    written(played, "of another time")
    assert driver(tmp_path).stand(1) == {}
    written(played, "sea")
    assert driver(tmp_path).stand(1) == {"words.1.0": 1}, "after a restart"
    assert driver(tmp_path).stand(2) == {"words.1.0": 1}
    written(played, "sand", "wind")
    assert driver(tmp_path).stand(2) == {"words.1.0": 1, "words.2.0": 2}


def test_of_two_drivers_that_begin_a_generation_one_says_where(played: Topic, tmp_path: Path) -> None:
    paused, successor = driver(tmp_path), driver(tmp_path)
    successor.stand(1)
    written(played, "sea")
    assert paused.stand(1) == {"words.1.0": 1}


def test_readers_stand_at_recorded_ends_and_not_behind_aborted_rows(played: Topic, tmp_path: Path) -> None:
    """Otherwise they would be ahead of a writer that takes part with its newest done epoch."""
    channel = PlayedChannel("words", Folder.of(tmp_path), played)
    channel.stand(WRITER, 4)
    played.transactions[written(played, "sea")] = Transacted.COMMITTED
    assert channel.readable() == {}, "epoch 5 is committed, and not done yet"
    channel.stand(WRITER, 5)
    played.abort([written(played, "of a run that died")])
    assert channel.readable() == channel.settled() == {"words.1.0": 1}


def test_rows_in_flight_are_not_read_in_a_topic_that_was_created_again(
    played: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new generation may begin in it; the rows of the older one are gone."""
    before = driver(tmp_path)
    before.stand(1)
    written(played, "sea", "sand")
    in_flight = before.stand(1)
    assert [each.end for each in driver(tmp_path).ranges({}, in_flight)] == [2]
    again = FoundPartitions(frozenset({("words", 0)}), {"words": "another id"})
    monkeypatch.setattr(Topic, "find", lambda *_: again)
    restored = driver(tmp_path)
    restored.stand(2)
    with pytest.raises(TidegateError) as raised:
        restored.ranges({}, in_flight)
    assert raised.value.catalogue_entry is Code.KAFKA_TOPIC_RECREATED
