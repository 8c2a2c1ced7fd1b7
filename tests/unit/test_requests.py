"""The requests of an epoch to the storage, beside Spark's own: counted at the ports, with the protocol as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.counted import Counted, counted_storage
from tidegate.core import effects as fx
from tidegate.core.epoch import run_epoch
from tidegate.core.finish_steadily import finish_as_they_come
from tidegate.core.happenings import EpochDone
from tidegate.core.ledger import COMMITS, DECIDED, DONE, OFFSETS, PREPARED, Query, entry, read_finished
from tidegate.core.records import Run
from tidegate.core.recover import open_run
from tidegate.operate.runner import Runner
from tidegate.storages.schemes import Folder
from tidegate.testing.memory_checkpoint_files import Bucket, MemoryCheckpointFiles
from tidegate.testing.memory_storage import Memory, MemoryStorage

QUERY = Query(job="j", job_id="0f", generation=1, uid="q", sources=("source",), sinks=(), local_lease=False)
EPOCHS = 100
KEPT_BY_SPARK = 10
STEADY = 2
"""The first epochs of a run look at what older runs have left."""


class Program:
    """A run of a query without state and without rows, on a storage in memory. Spark is this class."""

    def __init__(self, memory: Memory, journals: Path) -> None:
        self.counted = Counted()
        self.storage = MemoryStorage(memory)
        self.at: list[int] = []
        """The moments between two epochs."""
        self._finished = -1
        self._run: Run | None = None
        self._runner = Runner(
            query=QUERY,
            storage=counted_storage(self.storage, self.counted),
            sinks={},
            journal_folder=Folder.of(journals),
            checkpoint=MemoryCheckpointFiles(Bucket(), "spark"),
            port=self,
        )

    def go(self) -> None:
        self._run = self._runner.run(open_run(QUERY))
        self._finished = self._runner.run(read_finished())
        self._runner.run(finish_as_they_come(QUERY, self._run))

    def epochs(self) -> list[Counter[str]]:
        """By kind, the requests of each steady epoch."""
        moments = self.at[STEADY:]
        return [Counter(kind for kind, _ in self.counted.seen[begin:end]) for begin, end in pairwise(moments)]

    def await_commits(self, epoch: int) -> bool:
        self.at.append(self.counted.now())
        if epoch + 1 >= EPOCHS or self._run is None:
            return False
        self._spark_writes(OFFSETS, epoch + 1, 'v1\n{"batchWatermarkMs":0,"conf":{}}\n' + str(epoch + 2))
        self._runner.run(run_epoch(QUERY, self._run, epoch + 1))
        self._spark_writes(COMMITS, epoch + 1, 'v1\n{"nextBatchWatermarkMs":0}')
        return True

    def _spark_writes(self, folder: str, epoch: int, text: str) -> None:
        self.storage.put_if_absent(entry(folder, epoch), text.encode())
        self.storage.delete(entry(folder, epoch - KEPT_BY_SPARK))

    def compute(self, effect: fx.Compute) -> fx.Computed:
        start = str(effect.epoch) if effect.epoch else None
        return fx.Computed((), (start,), None, own=fx.OwnPlan((str(effect.epoch + 1),), 0, None))

    def await_finished(self, epoch: int) -> int:
        return self._finished

    def hesitate(self, effect: fx.Hesitate) -> None:
        raise AssertionError

    def tell(self, happening: fx.Happening) -> None:
        if isinstance(happening, EpochDone):
            self._finished = happening.epoch


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Program]:
    """Two runs, one after the other: the second one finds what the first one has left."""
    memory = Memory()
    made: list[Program] = []
    for last in (EPOCHS // 2, EPOCHS):
        made.append(Program(memory, tmp_path_factory.mktemp("journals")))
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(globals(), "EPOCHS", last)
            made[-1].go()
    return made


def test_an_epoch_costs_nine_requests_and_none_of_them_is_a_list(programs: Sequence[Program]) -> None:
    for program in programs:
        epochs = program.epochs()
        assert len(epochs) > EPOCHS // 3
        for epoch in epochs:
            assert epoch["list"] == 0
            assert (
                epoch["read"] + epoch["put"] <= 9 + epoch["delete_all"]
            )  # before a removal: is it still in Spark's log?
            assert epoch["look"] == epoch["delete"] == 0


def test_what_old_epochs_have_left_goes_and_the_newest_stays(programs: Sequence[Program]) -> None:
    for folder in (DECIDED, DONE, PREPARED):
        left = sorted(int(name.partition(".")[0]) for name in programs[-1].storage.list(folder))
        assert len(left) <= KEPT_BY_SPARK + 2 * QUERY.cleaned_together + 1, left
        assert left == list(range(left[0], EPOCHS)), "nothing is missing in between"
        assert left[0] <= EPOCHS - KEPT_BY_SPARK
