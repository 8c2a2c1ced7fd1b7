"""The world's disk as a real folder: the ledger through the storage that jobs use, Spark's files as Spark writes them.

State files have the names of Spark's, so that a savepoint knows which epoch they belong to.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Final

from tests.world.configurations import TASKS
from tests.world.disk import ABSENT, OFFSETS, STATE, Content, Disk
from tests.world.rows import State
from tidegate.checkpoints.spark_layout import commits_entry
from tidegate.core.records import StatefulOperator
from tidegate.disk.durable import ensure_folder
from tidegate.savepoints.log_change import state_ids_of
from tidegate.storages.local.checkpoint_sync import CheckpointSync
from tidegate.storages.local.storage import LocalStorage

OPERATOR: Final = "stateStoreSave"
_STATE_OF_OPERATOR: Final = f"{STATE}/0"
_METADATA: Final = "v1\n" + json.dumps(
    {
        "operatorInfo": {"operatorId": 0, "operatorName": OPERATOR},
        "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": TASKS}],
    }
)

PLANNED: Final = StatefulOperator(number=0, name=OPERATOR, stores=("default",), partitions=TASKS)


class FolderDisk(Disk):
    """A generation of a query, for one process: the next one opens it anew."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self._storage = LocalStorage(folder)
        self._sync = CheckpointSync(folder / "spark")
        ensure_folder(folder / "spark")

    def read(self, name: str) -> Content:
        if name.startswith(STATE):
            path = self.folder / _state_file(name)
            return state_in(path) if path.exists() else ABSENT
        data = self._storage.read(name)
        return ABSENT if data is None else data

    def names(self, folder: str) -> list[str]:
        return self._storage.list(folder)

    def put(self, name: str, data: Content) -> None:
        self._storage.replace(name, _bytes(data))

    def put_if_absent(self, name: str, data: Content) -> bool:
        return self._storage.put_if_absent(name, _bytes(data))

    def write(self, name: str, data: Content) -> None:
        if name.startswith(STATE):
            self._describe_state()
            name, data = _state_file(name), pickle.dumps(data)
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_bytes(data))

    def delete(self, name: str) -> None:
        """With an old offsets entry Spark lets go of the state that its epoch began with."""
        self._storage.delete(name)
        folder, _, number = name.rpartition("/")
        if folder == OFFSETS and number.isdigit():
            for path in (self.folder / _STATE_OF_OPERATOR).glob(f"*/{number}_*.zip"):
                path.unlink(missing_ok=True)

    def set_aside(self, name: str) -> str | None:
        return self._storage.set_aside(name)

    def sync_checkpoint(self) -> None:
        self._sync.sync()

    def _describe_state(self) -> None:
        path = self.folder / _STATE_OF_OPERATOR / "_metadata" / "metadata"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_METADATA)


def state_in(path: Path) -> State | None:
    """The state in a file; None for a torn one."""
    try:
        found = pickle.loads(path.read_bytes())
    except (EOFError, pickle.UnpicklingError):
        return None
    return found if isinstance(found, State) else None


def count_states(checkpoint: Path, epoch: int) -> dict[str, int]:
    """The rows of state behind an epoch of a checkpoint, as Spark's reader would count them: a row for each task, by
    the files that the epoch's commits entry names."""
    ids = state_ids_of((checkpoint / commits_entry(epoch)).read_bytes())[0]
    files = [checkpoint / f"state/0/{task}/{epoch + 1}_{each[0]}.zip" for task, each in enumerate(ids)]
    return {f"operator 0 ({OPERATOR})": sum(path.exists() and state_in(path) is not None for path in files)}


def _state_file(name: str) -> str:
    return f"{name.replace(STATE, _STATE_OF_OPERATOR, 1)}.zip"


def _bytes(data: Content) -> bytes:
    if not isinstance(data, bytes):
        raise TypeError(f"only state is no bytes here: {data!r}")
    return data
