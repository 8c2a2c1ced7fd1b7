"""The checker of the Kafka campaign sees each way of being wrong; its plan is seeded and has what was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.campaign.footprint import RECORDS
from tests.campaign.places import QUERIES
from tests.campaign_kafka.checker import WINDOW, Cuts, Input, Kind, Rows, Sums, check_rows, check_sums
from tests.campaign_kafka.records import Ints, Records
from tests.campaign_kafka.scene import TRANSACTION_SECONDS
from tests.campaign_kafka.schedule import Kill, Pause, Victim, kills_in, plan
from tests.campaign_kafka.tool import open_in

PARTITIONS = 2
KEYS = [0, 1, 2, 1, 0, 3, 0, 1, 2, 3, 0, 1]
CUTS = Cuts({0: {0: 2, 1: 1}, 1: {0: 4, 1: 4}, 2: {0: 6, 1: 6}})


def whole() -> Input:
    """Twelve records in two partitions, by their key."""
    records = Records.of(np.array(KEYS, np.int64))
    partition = records.keys % PARTITIONS
    offset = np.array([int((partition[:number] == partition[number]).sum()) for number in range(len(KEYS))], np.int64)
    return Input(records, partition, offset)


def right_rows(partition: bool = True) -> Rows:
    given = whole()
    order = np.lexsort((given.offset, given.partition))
    return Rows(
        number=order,
        key=given.records.keys[order],
        seq=given.records.seqs[order],
        epoch=CUTS.epoch_of(given)[order],
        mark=order * 1000,
        partition=given.partition[order] if partition else None,
    )


def right_sums(partition: bool = True) -> Sums:
    """One count for each key of each epoch, in the order of the epochs."""
    given, epochs = whole(), CUTS.epoch_of(whole())
    last = {(epochs[number], key): number for number, key in enumerate(KEYS)}
    newest = np.array([last[at] for at in sorted(last)], np.int64)
    key = given.records.keys[newest]
    kept = key * 100 + given.records.seqs[newest] // WINDOW
    return Sums(
        key=key,
        seen=given.records.seqs[newest] + 1,
        newest=newest,
        kept=kept,
        epoch=epochs[newest],
        mark=newest * 7,
        partition=key % PARTITIONS if partition else None,
    )


def kinds_in_rows(spoilt: Rows) -> set[Kind]:
    return set(check_rows(whole(), CUTS, {"topic": spoilt, "table": right_rows(partition=False)}).count)


def kinds_in_sums(spoilt: Sums) -> set[Kind]:
    return set(check_sums(whole(), CUTS, {"topic": spoilt, "mirror": right_sums()}).count)


def test_the_epochs_of_the_checkpoint_say_which_records_belong_together() -> None:
    assert CUTS.epoch_of(whole()).tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2]
    assert CUTS.backwards() == []
    assert Cuts({3: {0: 5}, 4: {0: 4}}).backwards() == [4]


def test_what_is_right_is_exact() -> None:
    assert kinds_in_rows(right_rows()) == kinds_in_sums(right_sums()) == set()
    assert check_rows(whole(), CUTS, {"topic": right_rows()}).compared == len(KEYS)


def changed(values: Ints, at: int, value: int) -> Ints:
    copied = values.copy()
    copied[at] = value
    return copied


def picked_rows(order: Ints) -> Rows:
    rows = right_rows()
    assert rows.partition is not None
    return Rows(
        number=rows.number[order],
        key=rows.key[order],
        seq=rows.seq[order],
        epoch=rows.epoch[order],
        mark=rows.mark[order],
        partition=rows.partition[order],
    )


def picked_sums(order: Ints) -> Sums:
    sums = right_sums()
    assert sums.partition is not None
    return Sums(
        key=sums.key[order],
        seen=sums.seen[order],
        newest=sums.newest[order],
        kept=sums.kept[order],
        epoch=sums.epoch[order],
        mark=sums.mark[order],
        partition=sums.partition[order],
    )


ALL_ROWS = np.arange(len(KEYS))
ALL_SUMS = np.arange(len(right_sums().key))

FLAWS_OF_ROWS: dict[str, tuple[Callable[[], Rows], set[Kind]]] = {
    "a record is gone": (lambda: picked_rows(np.delete(ALL_ROWS, 3)), {Kind.LOST}),
    "the last record is gone": (lambda: picked_rows(ALL_ROWS[:-1]), {Kind.LOST}),
    "a record is there twice": (lambda: picked_rows(np.insert(ALL_ROWS, 3, 3)), {Kind.DUPLICATED}),
    "an older record comes again": (lambda: picked_rows(np.append(ALL_ROWS, 7)), {Kind.DUPLICATED, Kind.REORDERED}),
    "two records of a key have changed places": (
        lambda: picked_rows(np.r_[1:4, 0, 4:12]),
        {Kind.REORDERED},
    ),
    "a key goes on in another partition": (
        lambda: replace(right_rows(), partition=changed(right_rows().key % PARTITIONS, 4, 1)),
        {Kind.REORDERED},
    ),
    "a record that nobody wrote": (
        lambda: replace(right_rows(), number=changed(right_rows().number, 2, 99)),
        {Kind.INVENTED, Kind.LOST},
    ),
    "another key": (lambda: replace(right_rows(), partition=None, key=changed(right_rows().key, 2, 3)), {Kind.WRONG}),
    "another number in its key": (lambda: replace(right_rows(), seq=changed(right_rows().seq, 2, 9)), {Kind.WRONG}),
    "a mark of another evaluation in one sink": (
        lambda: replace(right_rows(), mark=changed(right_rows().mark, 5, 1)),
        {Kind.TORN},
    ),
    "the row of another epoch in one sink": (
        lambda: replace(right_rows(), epoch=changed(right_rows().epoch, 5, 9)),
        {Kind.TORN, Kind.EPOCH},
    ),
}


@pytest.mark.parametrize("flaw", FLAWS_OF_ROWS)
def test_a_flaw_in_the_rows_of_one_sink_is_seen(flaw: str) -> None:
    spoil, kinds = FLAWS_OF_ROWS[flaw]
    assert kinds_in_rows(spoil()) == kinds


FLAWS_OF_SUMS: dict[str, tuple[Callable[[], Sums], set[Kind]]] = {
    "a count is gone": (lambda: picked_sums(np.delete(ALL_SUMS, 1)), {Kind.LOST}),
    "the last count is gone": (lambda: picked_sums(ALL_SUMS[:-1]), {Kind.LOST}),
    "a count is there twice": (lambda: picked_sums(np.insert(ALL_SUMS, 1, 1)), {Kind.DUPLICATED}),
    "an older count comes again": (
        lambda: picked_sums(np.append(ALL_SUMS, 0)),
        {Kind.DUPLICATED, Kind.REORDERED},
    ),
    "a count is too high": (lambda: replace(right_sums(), seen=right_sums().seen + (ALL_SUMS == 9)), {Kind.WRONG}),
    "a count from within an epoch": (
        lambda: replace(
            right_sums(),
            newest=changed(right_sums().newest, 3, 4),
            seen=changed(right_sums().seen, 3, 2),
        ),
        {Kind.EPOCH, Kind.LOST},
    ),
    "a mark of another evaluation in one sink": (
        lambda: replace(right_sums(), mark=changed(right_sums().mark, 2, 1)),
        {Kind.TORN},
    ),
    "a count of another epoch": (
        lambda: replace(right_sums(), epoch=changed(right_sums().epoch, 2, 7)),
        {Kind.TORN, Kind.EPOCH},
    ),
    "what nobody counted": (
        lambda: replace(right_sums(), newest=changed(right_sums().newest, 2, -1)),
        {Kind.INVENTED, Kind.LOST},
    ),
}


@pytest.mark.parametrize("flaw", FLAWS_OF_SUMS)
def test_a_flaw_in_the_counts_of_one_sink_is_seen(flaw: str) -> None:
    spoil, kinds = FLAWS_OF_SUMS[flaw]
    assert kinds_in_sums(spoil()) == kinds


def test_each_repetition_counts_and_the_first_ones_are_named() -> None:
    verdict = check_rows(whole(), CUTS, {"topic": picked_rows(np.append(np.repeat(ALL_ROWS, 2), 11))})
    assert verdict.count == {Kind.DUPLICATED: len(KEYS) + 1}
    assert verdict.examples == ["duplicated in topic: record 0; record 1; record 2; record 3; record 4, and 7 more"]


def test_a_count_that_the_state_did_not_go_on_with_is_seen_although_all_sinks_agree() -> None:
    spoilt = replace(right_sums(), kept=changed(right_sums().kept, 0, 5))
    assert set(check_sums(whole(), CUTS, {"topic": spoilt, "mirror": spoilt}).count) == {Kind.STATE}


def test_a_record_that_no_epoch_has_read_is_lost_although_no_count_is_missing() -> None:
    short = Cuts({epoch: CUTS.ends[epoch] for epoch in (0, 1)})
    sums = picked_sums(np.flatnonzero(right_sums().epoch < 2))
    assert set(check_sums(whole(), short, {"topic": sums}).count) == {Kind.LOST}


def test_keys_come_and_go_and_each_counts_its_own_records() -> None:
    records = Records.draw(50_000, seed=3)
    assert np.array_equal(records.keys, Records.draw(50_000, seed=3).keys)
    assert not np.array_equal(records.keys, Records.draw(50_000, seed=4).keys)
    for key in (0, 700, int(records.keys.max())):
        mine = records.seqs[records.keys == key]
        assert mine.tolist() == list(range(len(mine)))
    first_seen = np.flatnonzero(records.seqs == 0)
    assert (first_seen > 49_000).any(), "there are new keys to the end"
    assert len(records) / len(first_seen) > 3 * WINDOW, "most windows of a key are full"


def test_the_same_seed_gives_the_same_plan() -> None:
    assert plan(7, 60) == plan(7, 60) != plan(8, 60)


@pytest.mark.parametrize("kills", [1, 6, 60])
def test_the_plan_kills_as_often_as_was_asked_for_and_pauses_too(kills: int) -> None:
    steps = plan(1, kills)
    assert kills_in(steps) == kills
    assert len(steps) - kills == max(2, kills // 4)


def test_a_plan_of_sixty_kills_strikes_everything_at_every_record_and_at_any_time() -> None:
    steps = plan(1, 60)
    kills = [step for step in steps if isinstance(step, Kill)]
    pauses = [step for step in steps if isinstance(step, Pause)]
    assert all(sum(step.victim is victim for step in kills) == 12 for victim in Victim)
    assert {step.victim for step in pauses} == set(Victim) - {Victim.BOTH}
    moments = [step.moment for step in steps if step.moment is not None]
    assert {(moment.query, moment.record) for moment in moments} == {(q, r) for q in QUERIES for r in RECORDS}
    assert 0 < len(moments) < len(steps)


def test_some_drivers_stay_away_until_the_broker_has_aborted_what_was_open() -> None:
    steps = plan(1, 60)
    late = [step for step in steps if isinstance(step, Kill) and step.late]
    assert {step.victim for step in late} == {Victim.BOTH}
    assert len(late) == 3
    assert all(step.moment is not None for step in late)
    assert sum(isinstance(step, Pause) and step.seconds > TRANSACTION_SECONDS for step in steps) == 3


def test_of_what_kafkas_own_tool_prints_only_transactions_that_have_not_ended_are_open() -> None:
    table = (
        "TransactionalId\tCoordinator\tProducerId\tTransactionState\t\n"
        "tg.a.rows.topic.0\t1         \t0         \tOngoing         \t\n"
        "tg.a.rows.topic.1\t1         \t1         \tCompleteCommit  \t\n"
        "tg.a.rows.topic.2\t1         \t2         \tPrepareAbort    \t\n"
        "tg.a.rows.topic.3\t1         \t3         \tEmpty           \t\n"
    )
    assert [line.split()[0] for line in open_in(table)] == ["tg.a.rows.topic.0", "tg.a.rows.topic.2"]
    assert open_in(table.splitlines()[0]) == []
