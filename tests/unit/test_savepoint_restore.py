"""A restore is whole or has not been, wherever whoever restores is killed; the savepoint stays as it is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.support.restored_job import FINGERPRINT, RUN, restore, restoring
from tests.support.saved_job import RECORD, commits, offsets, running, write_job
from tests.support.today import turn
from tidegate.checkpoints.done_epoch import fingerprints_in_force
from tidegate.checkpoints.job_layout import JOB_RECORD, newest_begun
from tidegate.core.effects import Happening
from tidegate.core.errors import TidegateError
from tidegate.core.failpoints import RESTORE_POINTS
from tidegate.core.levels import Level
from tidegate.core.records import Decided, FinishedThrough, JobRecord, Run, SinkProgress, Start, decode, encode
from tidegate.savepoints.folder import Savepoint, names_wrong, verify
from tidegate.savepoints.restore import prepare
from tidegate.savepoints.restored import goes_back, read_restored
from tidegate.savepoints.restoring import Restore
from tidegate.savepoints.restoring_sinks import begins_with
from tidegate.savepoints.settled import settle
from tidegate.savepoints.take import take
from tidegate.spark.opens import Opens
from tidegate.spark.restoring import open_restore
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder

ROOT = Path(__file__).parents[2]
SWITCHED = RESTORE_POINTS[RESTORE_POINTS.index("restore.opened") :]


def saved_job(folder: Path) -> tuple[Path, Savepoint]:
    """A job of four done epochs, with its *job.json*, and a savepoint of it."""
    job = folder / "job"
    savepoint = take(write_job(job), "one", folder / "saved")
    LocalStorage(job).put_if_absent(JOB_RECORD, encode(RECORD))
    return job, savepoint


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def record_of(job: Path) -> JobRecord:
    return decode(JobRecord, (job / JOB_RECORD).read_bytes(), "job.json")


def test_a_generation_begins_behind_the_saved_epoch_with_everything_that_spark_goes_on_from(tmp_path: Path):
    job, savepoint = saved_job(tmp_path)
    before = contents(savepoint.folder)
    restore(restoring(job, savepoint))
    folder = job / "queries/query/g2"
    ledger = LocalStorage(folder)
    restored = {name.removeprefix("queries/query/spark/"): data for name, data in before.items()}
    del restored["_metadata.json"], restored["metadata"]
    assert contents(folder / "spark") == restored
    start = decode(Start, ledger.read("ledger/start") or b"", "start")
    decided = decode(Decided, ledger.read("ledger/decided/3") or b"", "decided")
    finished = decode(FinishedThrough, ledger.read("ledger/finished_through") or b"", "finished")
    assert (start.generation, start.first_epoch) == (2, 4)
    assert (decided.offsets, decided.commits) == (offsets(3).encode(), commits(3).encode())
    assert decided.prepared_digest == savepoint.digest
    assert decided.state_rows == {"0": 13}
    written = {"out": SinkProgress(epoch=3, digest="5d" * 32, generation=1)}
    assert finished == FinishedThrough(epoch=3, sinks=written), "what the first start behind it looks for in the sink"
    assert decode(Run, ledger.read(f"ledger/runs/{RUN.run}") or b"", "run") == RUN
    assert (record_of(job).generation, newest_begun(Folder.of(job / "queries/query"))) == (2, 2)
    noted = read_restored(Folder.of(job), record_of(job))
    assert noted is not None
    assert (noted.savepoint, noted.epochs) == (str(savepoint.folder), {"query": 3})
    assert contents(savepoint.folder) == before


def test_under_other_names_or_another_id_a_generation_misses_no_evidence_that_it_could_not_find(tmp_path: Path):
    _, savepoint = saved_job(tmp_path)
    saved, (query,) = savepoint.record, savepoint.record.queries
    assert begins_with(saved, RECORD, "query", ["out", "new"], query).keys() == {"out"}
    assert begins_with(saved, RECORD, "query", ["renamed"], query) == {}
    assert begins_with(saved, RECORD, "renamed", ["out"], query) == {}
    for other in (msgspec.structs.replace(RECORD, name="moved"), msgspec.structs.replace(RECORD, job_id="fork")):
        assert begins_with(saved, other, "query", ["out"], query) == {}


@turn(1, of=2)
@pytest.mark.parametrize("link", ["link", "copy"])
@pytest.mark.parametrize("step", RESTORE_POINTS)
def test_killed_at_any_step_the_old_generation_counts_or_the_new_one_and_a_second_try_is_whole(
    tmp_path: Path, step: str, link: str
):
    job, savepoint = saved_job(tmp_path)
    wanted = restoring(job, savepoint, link=link == "link")
    old, saved = contents(job / "queries/query/g1"), contents(savepoint.folder)
    command = [sys.executable, "-m", "tests.support.restored_job", str(job), str(savepoint.folder), step, link]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
    settle(Folder.of(job))  # as every start does
    assert record_of(job).generation == (2 if step in SWITCHED else 1)
    assert contents(job / "queries/query/g1") == old
    left = sorted(path.name for path in (job / "queries/query").iterdir())
    assert left == (["g1", "g2"] if step in SWITCHED else ["g1"])
    assert (job / "restores/2").exists() == (step in SWITCHED)
    if step not in SWITCHED:
        restore(wanted)
    restore(restoring(tmp_path / "unharmed", savepoint))
    assert contents(job / "queries/query/g2/spark") == contents(tmp_path / "unharmed/queries/query/g2/spark")
    assert (job / "queries/query/g2/ledger/start").exists()
    assert fingerprints_in_force(LocalStorage(job / "queries/query/g2")) == (FINGERPRINT,)
    assert contents(savepoint.folder) == saved
    assert verify(savepoint) == []


def test_a_start_without_the_savepoint_after_a_killed_restore_finds_nothing_of_it(tmp_path: Path):
    _, savepoint = saved_job(tmp_path)
    job = tmp_path / "new"
    prepare(restoring(job, savepoint, generation=1))
    settle(Folder.of(job))
    assert contents(job) == {}
    LocalStorage(job).put_if_absent(JOB_RECORD, encode(RECORD))  # the first start of a job of generation 1
    settle(Folder.of(job))
    assert list((job / "queries").iterdir()) == []


def test_a_claimed_savepoint_is_linked_and_a_mere_restore_copies(tmp_path: Path):
    job, savepoint = saved_job(tmp_path)
    state = "state/0/0/4.delta"
    ours = (savepoint.folder / "queries/query/spark" / state).stat().st_ino
    restore(restoring(job, savepoint))
    assert (job / "queries/query/g2/spark" / state).stat().st_ino != ours
    restore(restoring(job, savepoint, generation=3, link=True))
    assert (job / "queries/query/g3/spark" / state).stat().st_ino == ours


def test_each_file_is_told_of_so_that_a_long_copy_does_not_seem_to_stand_still(tmp_path: Path):
    job, savepoint = saved_job(tmp_path)
    told: list[Happening] = []
    hidden = prepare(replace(restoring(job, savepoint), tell=told.append))["query"]
    files = sorted(path for path in hidden.rglob("*") if path.is_file())
    assert sorted(map(str, told)) == [f"{path}, restored" for path in files]


def test_a_query_that_goes_on_under_another_uid_is_left_by_its_old_one(tmp_path: Path):
    job, savepoint = saved_job(tmp_path)
    restore(restoring(job, savepoint, uid="renamed"))
    assert [path.name for path in (job / "queries").iterdir()] == ["renamed"]
    assert newest_begun(Folder.of(job / "queries/renamed")) == 2
    (job / "queries/query/g2").mkdir(parents=True)  # a query of the program has that uid now
    settle(Folder.of(job))
    assert (job / "queries/query/g2").is_dir()


def test_what_was_allowed_at_a_restore_is_allowed_to_the_queries_that_the_program_had_then_and_to_no_other(
    tmp_path: Path,
):
    """A query may have begun behind the savepoint, and be out of the program while the job goes back: nobody was told
    of its rows, neither then nor where it comes back."""
    job, savepoint = saved_job(tmp_path)
    assert not goes_back(Folder.of(job), record_of(job), "query")
    renamed = replace(restoring(job, savepoint, uid="renamed"), rewind="monday")
    restore(replace(renamed, program=("renamed", "new")))
    allowed = {uid: goes_back(Folder.of(job), record_of(job), uid) for uid in ("renamed", "new", "query", "younger")}
    assert allowed == {"renamed": True, "new": True, "query": False, "younger": False}
    restore(replace(restoring(job, savepoint, uid="renamed", generation=3), program=("renamed", "new")))
    assert not goes_back(Folder.of(job), record_of(job), "new")


def test_a_new_query_under_the_uid_of_a_renamed_one_may_go_back_as_it_was_told(tmp_path: Path):
    job, savepoint = saved_job(tmp_path)
    renamed = replace(restoring(job, savepoint, uid="renamed"), rewind="monday")
    restore(replace(renamed, program=("query", "renamed")))
    assert goes_back(Folder.of(job), record_of(job), "query")


@pytest.mark.parametrize(
    ("damage", "code"),
    [("flip", "TG-SAVEPOINT-ALTERED"), ("cut", "TG-SAVEPOINT-INCOMPLETE"), ("remove", "TG-SAVEPOINT-INCOMPLETE")],
)
@pytest.mark.parametrize("link", [False, True])
def test_a_savepoint_that_is_not_as_it_was_taken_changes_nothing_of_the_job(
    tmp_path: Path, damage: str, code: str, link: bool
):
    job, savepoint = saved_job(tmp_path)
    state = savepoint.folder / "queries/query/spark/state/0/0/4.delta"
    data = state.read_bytes()
    state.unlink()
    if damage != "remove":
        state.write_bytes(data[:-1] if damage == "cut" else bytes([data[0] ^ 1]) + data[1:])
    before = contents(job)
    with pytest.raises(TidegateError) as caught:
        restore(restoring(job, savepoint, link=link))
    assert (caught.value.code, caught.value.where) == (code, str(state))
    settle(Folder.of(job))
    assert contents(job) == before


def test_what_is_not_the_savepoints_own_is_seen_before_a_file_is_read(tmp_path: Path):
    _, savepoint = saved_job(tmp_path)
    assert names_wrong(savepoint) == []
    (savepoint.folder / "more").touch()
    (savepoint.folder / "queries/query/spark/link").symlink_to(tmp_path)
    assert {error.code for error in names_wrong(savepoint)} == {"TG-SAVEPOINT-ALTERED", "TG-SAVEPOINT-UNSAFE"}


def test_a_job_that_comes_back_into_its_first_folder_opens_a_generation_above_all_that_it_has_had(tmp_path: Path):
    """It went on elsewhere with a savepoint that it claimed. Its sinks have evidence of the generations there, and no
    start of a lower one would go on."""
    job, _ = saved_job(tmp_path)
    moved = replace(running(job), record=msgspec.structs.replace(RECORD, generation=4))
    back = Restore(str(take(moved, "back", tmp_path / "saved").folder))
    with ExitStack() as stack:
        restore = open_restore(back, Folder.of(job), "job", Level.EXACTLY_ONCE, stack, Opens.RESTORE)
        assert restore is not None
        assert restore.target == msgspec.structs.replace(RECORD, generation=5)


def test_schemas_of_custom_state_lead_into_the_new_generation(tmp_path: Path):
    job = tmp_path / "job"
    running = write_job(job)
    old = job / "queries/query/g1/spark/state/0"
    schema = "state/0/_stateSchema/default/0_0a1b"
    for name, text in (
        (f"../../{schema}", "schema"),
        ("_metadata/v2/0", operator_metadata(f"file:{job}/queries/query/g1/spark/{schema}")),
        ("_metadata/v2/.0.crc", "checksum"),
    ):
        (old / name).parent.mkdir(parents=True, exist_ok=True)
        (old / name).write_text(text)
    savepoint = take(running, "one", tmp_path / "saved")
    shutil.rmtree(job)
    restore(restoring(job, savepoint))
    new = job / "queries/query/g2/spark"
    (store,) = json.loads((new / "state/0/_metadata/v2/0").read_text().split("\n")[1])["stateStoreInfo"]
    (path,) = store["stateSchemaFilePaths"]
    assert path == f"file:{new}/{schema}"
    assert Path(path.removeprefix("file:")).read_text() == "schema"
    assert not (new / "state/0/_metadata/v2/.0.crc").exists()


def operator_metadata(path: str) -> str:
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 1, "stateSchemaFilePaths": [path]}
    info = {"operatorId": 0, "operatorName": "transformWithStateExec"}
    return "v2\n" + json.dumps({"operatorInfo": info, "stateStoreInfo": [store]})
