"""A bucket of S3 on bad days: lost requests and answers, a busy server, a wrong set-up, uploads broken off."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest

from tests.support.http_faults import UNANSWERED, Fate, HttpFaults
from tests.support.s3 import S3Server, set_environment
from tests.support.s3_suites import content, key_of, open_uploads, put
from tests.support.today import turn
from tidegate.core.errors import TidegateError
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.journals import open_journal
from tidegate.storages.opening import open_storage
from tidegate.storages.s3 import connection, uploads
from tidegate.storages.s3.bucket import S3Bucket
from tidegate.storages.storage import Storage
from tidegate.testing.kafka.ports import free_port


@pytest.fixture
def faults(s3: S3Server) -> Iterator[HttpFaults]:
    with HttpFaults(s3.endpoint) as faults, set_environment({**s3.environment, "AWS_ENDPOINT_URL_S3": faults.endpoint}):
        yield faults


@pytest.fixture
def storage(s3: S3Server, faults: HttpFaults) -> Storage:
    return open_storage(s3.folder())


# --- lost answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", UNANSWERED, ids=lambda each: each.name)
@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.more)])
def test_a_put_whose_answer_is_lost_is_known_for_our_own(
    storage: Storage, faults: HttpFaults, fate: Fate, times: int
) -> None:
    faults.next(fate, "PUT", times)
    assert storage.put_if_absent("decided/7", b"ours") is True
    assert storage.put_if_absent("decided/7", b"ours") is False
    assert storage.read("decided/7") == b"ours"


@turn(1, of=3)
@pytest.mark.parametrize("fate", [Fate.LOSE_ANSWER, Fate.FAIL_AFTER, Fate.ERROR], ids=lambda each: each.name)
def test_a_put_that_loses_knows_it_although_its_answer_is_lost(
    storage: Storage, faults: HttpFaults, fate: Fate
) -> None:
    storage.put_if_absent("decided/7", b"the same")
    faults.next(fate, "PUT")
    assert storage.put_if_absent("decided/7", b"the same") is False


def test_a_refusal_that_our_own_first_try_has_caused_is_a_success(storage: Storage, faults: HttpFaults) -> None:
    """As a proxy or a client does that sends the request again by itself: the look behind the first try fails, too."""
    fates = iter([Fate.LOSE_ANSWER, Fate.LOSE_ANSWER])
    faults.each(lambda _: next(fates, Fate.PASS))
    assert storage.put_if_absent("decided/7", b"ours") is True
    assert faults.seen == {"PUT": 2, "HEAD": 2}


def test_each_call_is_one_request_and_none_lists(storage: Storage, faults: HttpFaults) -> None:
    storage.put_if_absent("decided/7", b"")
    storage.replace("beat", b"")
    storage.note("desk", b"")
    assert faults.seen == {"PUT": 3}
    storage.read("decided/7")
    storage.peek("decided/8")
    assert faults.seen == {"PUT": 3, "GET": 2}
    storage.look("beat")
    storage.delete("beat")
    assert faults.seen == {"PUT": 3, "GET": 2, "HEAD": 1, "DELETE": 1}
    storage.put_if_absent("decided/7", b"")
    assert faults.seen == {"PUT": 4, "GET": 2, "HEAD": 2, "DELETE": 1}


def test_every_request_comes_through_while_half_of_them_fail(storage: Storage, faults: HttpFaults) -> None:
    chance = random.Random(7)
    kinds = [Fate.PASS, *(each for each in UNANSWERED if each is not Fate.SLOW_DOWN)]
    faults.each(lambda _: chance.choice([Fate.PASS, chance.choice(kinds)]))
    for number in range(4):
        assert storage.put_if_absent(f"runs/{number}", b"%d" % number) is True
        assert storage.put_if_absent(f"runs/{number}", b"another") is False
        storage.replace("beat", b"%d" % number)
        assert storage.read("beat") == b"%d" % number
    assert storage.list("runs") == [str(number) for number in range(4)]
    storage.clear("runs")
    assert storage.list("runs") == []


def test_a_file_whose_connection_breaks_is_read_on(s3: S3Server, faults: HttpFaults) -> None:
    root = s3.folder()
    data = os.urandom(3 << 20)
    put(s3, root / "state/1.zip", data)
    file = open_checkpoint_files(root).open("state/1.zip")
    assert file is not None
    buffer = memoryview(bytearray(1 << 20))
    found = bytes(buffer[: file.readinto(buffer) or 0])
    file._body.close()  # pyright: ignore[reportAttributeAccessIssue]
    file._body = None  # pyright: ignore[reportAttributeAccessIssue]
    faults.next(Fate.LOSE_REQUEST, "GET")
    while length := file.readinto(buffer):
        found += buffer[:length]
    assert found == data
    file.close()


# --- large objects -----------------------------------------------------------------------------------------


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As small as S3 takes them."""
    monkeypatch.setattr(uploads, "PART_BYTES", 5 << 20)
    monkeypatch.setattr(uploads, "COPIED_PART_BYTES", 5 << 20)


def noise(size_bytes: int) -> pa.RecordBatch:
    rows = [os.urandom(1 << 20) for _ in range(size_bytes >> 20)]
    return pa.RecordBatch.from_pydict({"noise": rows})


@pytest.mark.usefixtures("small_parts")
def test_many_rows_go_in_parts_and_a_second_writer_of_their_name_loses(s3: S3Server) -> None:
    root = s3.folder()
    journal, batches = open_journal(root), [noise(6 << 20), noise(6 << 20)]
    first, second = journal.writer("7/rows.arrow"), journal.writer("7/rows.arrow")
    for batch in batches:
        first.write(batch)
        second.write(batch)
    assert open_uploads(s3, root) == 2
    reference = first.close()
    assert reference is not None
    assert reference.size_bytes > 12 << 20
    with pytest.raises(TidegateError, match="another process has created it"):
        second.close()
    second.abort()
    assert list(open_journal(root).read(reference)) == batches
    assert open_uploads(s3, root) == 0


@pytest.mark.usefixtures("small_parts")
def test_parts_of_a_killed_writer_go_when_its_epoch_comes_again(s3: S3Server) -> None:
    root = s3.folder()
    open_journal(root).writer("7/rows.arrow").write(noise(6 << 20))
    assert open_uploads(s3, root) == 1
    open_journal(root).delete_from(7)
    assert open_uploads(s3, root) == 0


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("fate", [Fate.LOSE_ANSWER, Fate.FAIL_AFTER, Fate.ERROR], ids=lambda each: each.name)
def test_parts_and_their_completion_survive_lost_answers(s3: S3Server, faults: HttpFaults, fate: Fate) -> None:
    """The POST behind that which begins the upload completes it."""
    root = s3.folder()
    batch = noise(7 << 20)
    writer = open_journal(root).writer("7/rows.arrow")
    writer.write(batch)
    faults.next(fate, "POST")
    reference = writer.close()
    assert reference is not None
    assert list(open_journal(root).read(reference)) == [batch]
    assert open_uploads(s3, root) == 0


@pytest.mark.usefixtures("small_parts")
def test_a_file_that_is_too_large_for_one_copy_is_copied_in_parts(s3: S3Server) -> None:
    root = s3.folder()
    data = os.urandom(11 << 20)
    put(s3, root / "state/1.zip", data)
    bucket = S3Bucket(root.authority)
    source, target = key_of(root / "state/1.zip"), key_of(root / "held/1.zip")
    for _ in range(2):
        assert uploads.copied_in_parts(bucket, source, bucket, target, "hold") is True
    assert content(s3, root / "held/1.zip") == data
    assert uploads.copied_in_parts(bucket, f"{source}.gone", bucket, target, "hold") is False


# --- a server that is away, versions ------------------------------------------------------------------------


@pytest.mark.parametrize("has_answered", [False, True])
def test_a_server_that_is_away_for_a_moment_is_waited_for(s3: S3Server, has_answered: bool) -> None:
    port = free_port(())
    with set_environment({**s3.environment, "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}"}):
        storage = open_storage(s3.folder())
        if has_answered:
            with HttpFaults(s3.endpoint, port):
                assert storage.put_if_absent("runs/0", b"") is True
        with ExitStack() as later:
            timer = threading.Timer(0.4, lambda: later.enter_context(HttpFaults(s3.endpoint, port)))
            timer.start()
            assert storage.put_if_absent("runs/1", b"") is True
            timer.join()


def test_a_bucket_with_object_lock_keeps_versions_and_stops_nothing(s3: S3Server) -> None:
    client = s3.client()
    client.create_bucket(Bucket="with-lock", ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    client.put_object_lock_configuration(
        Bucket="with-lock",
        ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule},  # pyright: ignore[reportArgumentType]
    )
    storage = open_storage("s3://with-lock/jobs")
    assert storage.put_if_absent("done/7", b"seven") is True
    assert storage.put_if_absent("done/7", b"another") is False
    for data in (b"one", b"two"):
        storage.replace("beat", data)
        assert storage.read("beat") == data
    storage.clear("done")
    assert storage.read("done/7") is None
    storage.delete("beat")
    assert storage.list("") == []


def test_a_server_that_is_away_for_longer_than_patience_is_an_error_and_then_it_goes_on(
    storage: Storage, faults: HttpFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert storage.put_if_absent("runs/1", b"") is True
    monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.3)
    faults.each(lambda _: Fate.SLOW_DOWN)
    with pytest.raises(TidegateError, match="HTTP 503") as caught:
        storage.put_if_absent("runs/2", b"")
    assert "when it answers" in caught.value.next_step
    faults.each(lambda _: Fate.PASS)
    assert storage.put_if_absent("runs/2", b"") is True


def test_old_versions_and_marks_of_deletes_are_not_read(s3: S3Server) -> None:
    client = s3.client()
    client.create_bucket(Bucket="with-versions")
    client.put_bucket_versioning(Bucket="with-versions", VersioningConfiguration={"Status": "Enabled"})
    storage = open_storage("s3://with-versions/jobs")
    for data in (b"one", b"two"):
        assert storage.put_if_absent("done/7", data) is True
        assert storage.put_if_absent("done/7", b"another") is False
        storage.replace("beat", data)
        assert (storage.read("done/7"), storage.read("beat")) == (data, data)
        storage.delete("done/7")
        assert (storage.read("done/7"), storage.list("done")) == (None, [])
    storage.clear("")
    assert (storage.read("beat"), storage.list("")) == (None, [])


def test_a_client_is_never_used_behind_a_fork(s3: S3Server) -> None:
    storage = open_storage(s3.folder())
    storage.replace("parent", b"")
    before = connection.connection()
    assert connection.connection() is before
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            storage.replace("child", b"")
            os._exit(0 if connection.connection() is not before else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert storage.list("") == ["child", "parent"]
