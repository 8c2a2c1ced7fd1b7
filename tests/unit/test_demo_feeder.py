"""How much input the demo lets in: every query comes to the epoch of the kill, however batches become epochs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.testing.demo.feeder import Progress, batches_until


def test_a_batch_is_an_epoch():
    assert batches_until(3, [Progress(0, 0), Progress(0, 0)], fed=0, ahead=1) == 1
    assert batches_until(3, [Progress(3, 3), Progress(2, 2)], fed=3, ahead=1) == 3
    assert batches_until(3, [Progress(3, 3), Progress(3, 3)], fed=3, ahead=1) == 4
    assert batches_until(3, [Progress(3, 3), Progress(3, 3)], fed=4, ahead=1) == 4


def test_an_epoch_of_two_batches_needs_one_batch_more():
    assert batches_until(3, [Progress(3, 4), Progress(3, 3)], fed=4, ahead=4) == 5


def test_a_query_whose_batch_was_cut_into_two_epochs_is_held_and_the_other_one_gets_its_batch():
    """Held in epoch 19 with batch 18 not through it: the other query needs batch 19 for its epoch 19."""
    assert batches_until(19, [Progress(19, 18), Progress(19, 19)], fed=19, ahead=1) == 20


@given(
    epoch=st.integers(1, 12),
    ahead=st.integers(1, 4),
    first=st.lists(st.sampled_from(["one", "cut", "both"]), max_size=30),
    second=st.lists(st.sampled_from(["one", "cut", "both"]), max_size=30),
)
def test_both_queries_come_to_the_epoch_whatever_becomes_of_the_batches(
    epoch: int, ahead: int, first: list[str], second: list[str]
):
    """Each query takes its next epoch by its own list: a batch, a part of one, all that are there."""
    queries = [_Query(first), _Query(second)]
    fed = 0
    for _ in range(200):
        fed = max(fed, batches_until(epoch, [query.progress for query in queries], fed, ahead))
        for query in queries:
            if query.epochs < epoch:
                query.take(fed)
    assert [query.epochs for query in queries] == [epoch, epoch]
    assert all(query.has_input_for_one_more(fed) for query in queries)


class _Query:
    def __init__(self, ways: list[str]) -> None:
        self._ways = iter(ways)
        self.epochs = 0
        self._halves = 0

    @property
    def progress(self) -> Progress:
        return Progress(self.epochs, self._halves // 2)

    def has_input_for_one_more(self, fed: int) -> bool:
        return self._halves < 2 * fed

    def take(self, fed: int) -> None:
        if not self.has_input_for_one_more(fed):
            return
        self.epochs += 1
        match next(self._ways, "one"):
            case "cut":
                self._halves += 1
            case "both":
                self._halves = 2 * fed
            case _:
                self._halves += 2 - self._halves % 2
