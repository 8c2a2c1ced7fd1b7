"""The manifests of retained checkpoints: of a burst only the newest, and none that points at nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.checkpoints.retained import QueryFolder, RetainedCheckpoints
from tidegate.checkpoints.way_back import with_way_back
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import DECIDED, FINISHED_THROUGH, Query, entry
from tidegate.core.records import CheckpointRecord, Decided, FinishedThrough, SinkProgress, encode
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder

QUERY = Query(job="job", job_id="0f1e2d3c", generation=1, uid="query", sources=("in",), sinks=("out",))


@pytest.fixture
def ledger(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "queries" / "query" / "g1")


def checkpoints(tmp_path: Path, retained: int) -> RetainedCheckpoints:
    queries = [QueryFolder(QUERY, Folder.of(tmp_path / "queries" / "query" / "g1"))]
    return RetainedCheckpoints(Folder.of(tmp_path), "job", "0f1e2d3c", queries, retained)


def finish(ledger: LocalStorage, epoch: int, offsets: bytes = b"offsets") -> None:
    decided = Decided(epoch=epoch, run=4, prepared_digest="7f" * 32, offsets=offsets, commits=b"commits")
    ledger.put_if_absent(entry(DECIDED, epoch), encode(decided))
    reached = FinishedThrough(epoch=epoch, sinks={"out": SinkProgress(epoch=epoch, digest="5d" * 32)})
    ledger.replace(FINISHED_THROUGH, encode(reached))


def epochs(tmp_path: Path) -> dict[int, int]:
    records = {number: read_retained(Folder.of(tmp_path), number) for number in retained_numbers(Folder.of(tmp_path))}
    return {number: record.queries[0].epoch for number, record in records.items() if record is not None}


def test_of_a_burst_only_those_are_written_that_would_stay(
    tmp_path: Path, ledger: LocalStorage, monkeypatch: pytest.MonkeyPatch
):
    kept = checkpoints(tmp_path, retained=3)
    for epoch in range(50):
        finish(ledger, epoch)
        kept.note("query")
    written: list[str] = []
    put = LocalStorage.put_if_absent

    def noted(self: LocalStorage, name: str, data: bytes) -> bool:
        written.append(name)
        return put(self, name, data)

    monkeypatch.setattr(LocalStorage, "put_if_absent", noted)
    kept.write()
    assert written == [f"checkpoints/{number}/_metadata.json" for number in (48, 49, 50)]
    assert epochs(tmp_path) == {48: 47, 49: 48, 50: 49}
    kept.write()
    assert len(written) == 3, "nothing new, nothing written"
    for call in ("read", "look", "list", "folders", "delete", "delete_folder", "remove_leftovers"):
        monkeypatch.setattr(LocalStorage, call, None)
    kept.write()  # and nothing looked for: where each look is a request, an idle job sends none


def test_the_count_goes_on_after_a_restart_and_fewer_may_be_retained(tmp_path: Path, ledger: LocalStorage):
    for life, retained in enumerate((3, 2)):
        kept = checkpoints(tmp_path, retained)
        for epoch in range(life * 3, life * 3 + 3):
            finish(ledger, epoch)
            kept.note("query")
        kept.write()
    assert epochs(tmp_path) == {5: 4, 6: 5}


def test_a_checkpoint_whose_decision_has_gone_gets_no_manifest(tmp_path: Path, ledger: LocalStorage):
    kept = checkpoints(tmp_path, retained=2)
    for epoch in range(2):
        finish(ledger, epoch)
        kept.note("query")
    ledger.delete(entry(DECIDED, 0))
    kept.write()
    assert epochs(tmp_path) == {2: 1}


def test_what_could_not_be_written_is_written_later_unless_newer_ones_have_taken_its_place(
    tmp_path: Path, ledger: LocalStorage
):
    kept = checkpoints(tmp_path, retained=2)
    (tmp_path / "checkpoints").write_text("no folder can be here")
    for epoch in range(3):
        finish(ledger, epoch)
        kept.note("query")
        with pytest.raises(TidegateError):
            kept.write()
    (tmp_path / "checkpoints").unlink()
    kept.write()
    assert epochs(tmp_path) == {2: 1, 3: 2}


def test_an_epoch_waits_for_one_file_however_many_queries_the_job_has(
    tmp_path: Path, ledger: LocalStorage, monkeypatch: pytest.MonkeyPatch
):
    idle = [Query(job="job", job_id="0f1e2d3c", generation=1, uid=f"idle-{n}", sources=(), sinks=()) for n in range(9)]
    queries = [QueryFolder(each, Folder.of(tmp_path / "queries" / each.uid / "g1")) for each in (QUERY, *idle)]
    kept = RetainedCheckpoints(Folder.of(tmp_path), "job", "0f1e2d3c", queries, retained=1)
    kept.look()
    finish(ledger, 0)
    asked: list[Path] = []
    read = Path.read_bytes

    def noted(self: Path) -> bytes:
        asked.append(self)
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", noted)
    kept.note("query")
    assert asked == [ledger.path(FINISHED_THROUGH)]


def test_a_manifest_says_where_everything_stands(tmp_path: Path, ledger: LocalStorage):
    finish(ledger, 0)
    kept = checkpoints(tmp_path, retained=1)
    kept.look()
    finish(ledger, 1)
    kept.note("query")
    kept.write()
    record = read_retained(Folder.of(tmp_path), 1)
    assert isinstance(record, CheckpointRecord)
    [query] = record.queries
    assert (query.run, query.offsets, query.commits) == (4, b"offsets", b"commits")
    assert query.progress == {"out": SinkProgress(epoch=1, digest="5d" * 32)}


@pytest.mark.parametrize(
    ("has", "told"),
    [
        ((1, 4), "go back to retained checkpoint 5: tidegate run -s {folder}/checkpoints/5 --rewind APP"),
        ((1, 3), "go back to retained checkpoint 4: "),
        ((2, 0), "go back to retained checkpoint 6: "),
        ((1, 2), "no retained checkpoint is old enough: go back to a savepoint"),
        ((0, -1), "no retained checkpoint is old enough: "),
    ],
    ids=["the epoch before", "an older one", "of a later generation", "older than all", "nothing"],
)
def test_a_sink_that_lacks_epochs_is_told_with_the_newest_checkpoint_that_it_still_has(
    tmp_path: Path, ledger: LocalStorage, has: tuple[int, int], told: str
) -> None:
    kept = checkpoints(tmp_path, retained=3)
    for epoch in range(6):
        finish(ledger, epoch)
        kept.note("query")
    kept.write()
    generation, number = has
    error = behind(generation, number)
    next_step = with_way_back(error, Folder.of(tmp_path)).next_step
    assert next_step.startswith(told.format(folder=Folder.of(tmp_path)))
    assert next_step.endswith(error.next_step)


@pytest.mark.parametrize(
    ("has", "told"),
    [
        ((1, 3), "behind source positions ['3'], up to source positions ['5']"),
        ((1, 2), "behind source positions of epoch 2, which no record has any more, up to source positions ['5']"),
        ((0, 9), "behind source positions of epoch 9, which no record has any more, up to source positions ['5']"),
        ((0, -1), "from the start, up to source positions ['5']"),
    ],
    ids=["an epoch of a checkpoint", "one that is cleaned up", "of a generation that is gone", "nothing"],
)
@pytest.mark.parametrize("is_cleaned", [False, True])
def test_a_sink_that_lacks_epochs_is_told_with_the_source_positions_of_the_missing_rows(
    tmp_path: Path, ledger: LocalStorage, has: tuple[int, int], told: str, *, is_cleaned: bool
) -> None:
    """From the decisions, and from the retained checkpoints, which may outlive them."""
    kept = checkpoints(tmp_path, retained=3)
    for epoch in range(6):
        finish(ledger, epoch, offsets=b"v1\n{}\n%d" % epoch)
        kept.note("query")
    kept.write()
    ledger.delete_all([entry(DECIDED, epoch) for epoch in range(6 if is_cleaned else 3)])
    assert with_way_back(behind(*has), Folder.of(tmp_path)).where == f"here; the missing rows: {told}"


def behind(generation: int, epoch: int) -> TidegateError:
    has = {"generation": generation, "epoch": epoch}
    found = {"query": "query", "sink": "out", **has, "lacks_generation": 1, "lacks_epoch": 5}
    return TidegateError(Code.SINK_BEHIND, expected="epoch 5", found="less", where="here", details=found)


def test_another_error_is_told_as_it_is(tmp_path: Path) -> None:
    error = TidegateError(Code.SINK_AHEAD, expected="nothing", found="epoch 5", where="here")
    assert with_way_back(error, Folder.of(tmp_path)) is error
