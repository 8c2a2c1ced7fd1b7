"""A sink of a package of its own: each transaction is a file that is dropped into a folder.

It is written as an author outside the project writes one: with `tidegate.sink_api` alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from tidegate.sink_api import (
    Attempt,
    Finding,
    Outcome,
    SinkPlan,
    TwoPhaseCommitSink,
    TwoPhaseSink,
    ok,
    sync_file,
    sync_folder,
)


class DropSink(TwoPhaseCommitSink[TextIOWrapper]):
    kind: ClassVar[str] = "drops"

    def __init__(self, uid: str, folder: str | Path, *, token: str = "", delivery: str | None = None) -> None:
        super().__init__(uid, delivery=delivery)
        self.folder = Path(folder)
        self.token = token

    def describe(self) -> Mapping[str, object]:
        return {"folder": str(self.folder), "left_out": ["token"] if self.token else []}

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        return cls(uid, str(described["folder"]), token=options.get("token", ""), delivery=delivery)

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return f"drops in {described['folder']}"

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        return [ok(what, f"{len(list(self.folder.glob('*.json')))} drops in {self.folder}")]

    def open(self, plan: SinkPlan) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def begin_transaction(self, attempt: Attempt) -> TextIOWrapper:
        return self._file(attempt, "draft").open("w")

    def write(self, transaction: TextIOWrapper, batch: pa.RecordBatch) -> None:
        transaction.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())

    def pre_commit(self, transaction: TextIOWrapper) -> Mapping[str, str]:
        transaction.flush()
        sync_file(transaction.fileno())
        transaction.close()
        sync_folder(self.folder)
        return {"bytes": str(Path(transaction.name).stat().st_size)}

    def commit_transaction(self, attempt: Attempt, handle: Mapping[str, str]) -> Outcome:
        draft, final = self._file(attempt, "draft"), self._file(attempt, "json")
        moved = False
        if draft.exists():
            try:
                draft.rename(final)
                moved = True
            except FileNotFoundError:
                pass
        if not final.exists() or final.stat().st_size != int(handle["bytes"]):
            return Outcome.LOST
        sync_folder(self.folder)
        return Outcome.COMMITTED if moved else Outcome.ALREADY

    def abort_transaction(self, transaction: TextIOWrapper) -> None:
        transaction.close()
        Path(transaction.name).unlink(missing_ok=True)

    def _file(self, attempt: Attempt, ending: str) -> Path:
        return self.folder / f"{self.name_of(attempt)}.{ending}"
