"""What each store must hold, computed from the files of orders alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Row = tuple[Any, ...]


class Order(NamedTuple):
    id: int
    customer: str
    product: str
    quantity: int
    price: int


class Total(NamedTuple):
    product: str
    orders: int
    cents: int


@dataclass(slots=True)
class Content:
    """The rows of every store. `alerts`: those of Kafka. `bad`: the texts of the dead letters."""

    orders_table: list[Order] = field(default_factory=list[Order])
    orders_lake: list[Order] = field(default_factory=list[Order])
    bad: list[str] = field(default_factory=list[str])
    totals_table: list[Total] = field(default_factory=list[Total])
    totals_live: list[Total] = field(default_factory=list[Total])
    alerts: list[Total] = field(default_factory=list[Total])


def expected(files: Sequence[Sequence[str]], ends: Iterable[int], alert_above: int) -> Content:
    """`files`: the lines of each file, in the order in which they were read. `ends`: for each epoch of the totals the
    number of files that it and the earlier ones have read.
    """
    content = Content()
    for line in (line for lines in files for line in lines):
        order = _order(line)
        if order is None:
            content.bad.append(line)
        else:
            content.orders_table.append(order)
    content.orders_lake = [*content.orders_table]
    totals: dict[str, Total] = {}
    begin = 0
    for end in ends:
        touched = _add(totals, files[begin:end])
        content.alerts += [totals[each] for each in sorted(touched) if totals[each].cents > alert_above]
        begin = end
    content.totals_table = sorted(totals.values())
    content.totals_live = [*content.totals_table]
    return content


def _add(totals: dict[str, Total], files: Iterable[Sequence[str]]) -> set[str]:
    """Add the orders of these files; the products whose totals have changed."""
    touched: set[str] = set()
    for order in filter(None, (_order(line) for lines in files for line in lines)):
        before = totals.get(order.product, Total(order.product, 0, 0))
        cents = before.cents + order.quantity * order.price
        totals[order.product] = Total(order.product, before.orders + 1, cents)
        touched.add(order.product)
    return touched


def _order(line: str) -> Order | None:
    """None for a line that was cut."""
    try:
        return Order(**json.loads(line))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Compared:
    """One store. `wrong`: rows that no input explains."""

    store: str
    rows: int
    lost: int
    repeated: int
    wrong: int
    example: str = ""

    @property
    def exact(self) -> bool:
        return not (self.lost or self.repeated or self.wrong)


STORES: Mapping[str, str] = {
    "orders_table": "orders in PostgreSQL",
    "orders_lake": "orders in Delta",
    "bad": "dead letters",
    "totals_table": "totals in PostgreSQL",
    "totals_live": "totals in Redis",
    "alerts": "alerts in Kafka",
}


def compared(wanted: Content, found: Content) -> list[Compared]:
    return [_one(told, getattr(wanted, name), getattr(found, name)) for name, told in STORES.items()]


def _one(store: str, wanted: Sequence[Row | str], found: Sequence[Row | str]) -> Compared:
    missing, beyond = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    repeated = {row: times for row, times in beyond.items() if row in set(wanted)}
    wrong = {row: times for row, times in beyond.items() if row not in repeated}
    example = next((f"{row}" for rows in (missing, beyond) for row in rows), "")
    return Compared(store, len(found), sum(missing.values()), sum(repeated.values()), sum(wrong.values()), example)
