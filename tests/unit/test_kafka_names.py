"""Transactional ids are parsed as a whole: one sink's never passes for another's."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.records import SinkIdentity
from tidegate.sinks.kafka.names import TransactionalId

_UIDS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
_IDS = st.builds(
    TransactionalId,
    prefix=st.text(st.sampled_from("ab.tg%-"), max_size=8),
    job_id=st.text(st.sampled_from("0123456789abcdef"), min_size=1, max_size=16),
    query=_UIDS,
    sink=_UIDS,
    place=st.text(st.sampled_from("0123456789abcdef"), min_size=8, max_size=8),
    slot=st.integers(0, 999),
    turn=st.integers(0, 1),
)


def identity_of(each: TransactionalId) -> SinkIdentity:
    return SinkIdentity(job="any", job_id=each.job_id, generation=3, query=each.query, sink=each.sink)


@given(_IDS)
def test_an_id_says_whose_it_is_whatever_the_uids_hold(each: TransactionalId) -> None:
    assert TransactionalId.parse(str(each)) == each
    assert each.belongs_to(each.prefix, identity_of(each))


@given(_IDS, _IDS)
def test_two_ids_have_two_names(one: TransactionalId, other: TransactionalId) -> None:
    assert (str(one) == str(other)) == (one == other)


def test_a_sink_whose_name_is_the_beginning_of_anothers_does_not_own_its_transactions() -> None:
    name = "tg.5f0c.by-day.numbers-2.0a1b2c3d.0.1"
    mine = SinkIdentity(job="orders", job_id="5f0c", generation=1, query="by-day", sink="numbers")
    found = TransactionalId.parse(name)
    assert found is not None
    assert not found.belongs_to("", mine)
    assert not found.belongs_to("team", msgspec.structs.replace(mine, sink="numbers-2"))


def test_what_others_named_is_none_of_ours() -> None:
    for name in ("", "orders", "tg.5f0c.q.s.0a1b2c3d.0", "tg.5f0c.q.s.0A1B2C3D.0.1", "tg.5f0c.q.s.0a1b2c3d.0.2"):
        assert TransactionalId.parse(name) is None
