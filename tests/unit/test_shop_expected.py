"""What the stores of the shop must hold, and how a store that differs is told."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.shop.expected import Content, Order, Total, compared, expected

BREAD = Order(1, "anna", "bread", 2, 100)
JAM = Order(2, "bob", "jam", 1, 300)
MORE_BREAD = Order(3, "anna", "bread", 3, 100)
CUT = '{"id": 4, "cust'
FILES = [[json.dumps(BREAD._asdict()), CUT], [json.dumps(JAM._asdict())], [json.dumps(MORE_BREAD._asdict())]]


def content(*ends: int) -> Content:
    return expected(FILES, ends, alert_above=250)


def test_orders_are_kept_and_lines_that_were_cut_are_dead_letters() -> None:
    found = content(1, 2, 3)
    assert found.orders_table == found.orders_lake == [BREAD, JAM, MORE_BREAD]
    assert found.bad == [CUT]
    assert found.totals_table == found.totals_live == [Total("bread", 2, 500), Total("jam", 1, 300)]


def test_a_total_above_the_limit_is_one_alert_for_each_epoch_that_changes_it() -> None:
    assert content(1, 2, 3).alerts == [Total("jam", 1, 300), Total("bread", 2, 500)]
    assert content(3).alerts == [Total("bread", 2, 500), Total("jam", 1, 300)]


def test_a_store_that_differs_is_told_by_what_is_lost_repeated_and_wrong() -> None:
    wanted = content(3)
    stranger = Order(9, "nobody", "bread", 1, 1)
    found = replace(wanted, orders_table=[BREAD, BREAD, MORE_BREAD, stranger])
    first, *others = compared(wanted, found)
    assert (first.lost, first.repeated, first.wrong) == (1, 1, 1)
    assert not first.exact
    assert all(each.exact for each in others)
