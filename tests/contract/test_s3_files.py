"""The file sink on a real server of S3: its contract, lost answers to a copy, and what may be compacted when."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator

import msgspec
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from tests.support.http_faults import UNANSWERED, Fate, HttpFaults
from tests.support.remote_files import RemoteFilesContract, content, staged, visible
from tests.support.s3 import S3Endpoint, S3Server, set_environment
from tidegate.core.errors import TidegateError
from tidegate.core.records import Committable, Evidence, Outcome
from tidegate.sinks.files.sink import FileSink
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.s3 import connection, copies, target_files, uploads
from tidegate.storages.s3.target_files import DIGEST
from tidegate.testing.contract import IDENTITY, attempt_of, rows_from


class TestFilesOnS3(RemoteFilesContract):
    @pytest.fixture(autouse=True)
    def _server(self, s3: S3Server) -> None:
        self.s3 = s3
        self.root = s3.folder()

    def test_files_may_be_compacted_up_to_the_newest_done_epoch_only(self) -> None:
        """That epoch stands beside the claims. Before it is done, recovery copies the staged file once more."""
        sink, committable = self.opened(), self.committed(attempt_of(epoch=4))
        assert self.done_epoch() is None
        self.compact()
        assert sink.evidence(committable) is Evidence.ABSENT
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2))
        sink.clean(IDENTITY, 4)
        assert self.done_epoch() == 4
        self.compact()
        assert sink.evidence(committable) is Evidence.PRESENT
        self.all_answer(sink.commit([committable]), Outcome.ALREADY)
        self.target_has()

    def test_a_late_clean_up_does_not_take_the_newest_done_epoch_back(self) -> None:
        sink = self.opened()
        for epoch in (4, 5):
            self.committed(attempt_of(epoch=epoch))
        sink.clean(IDENTITY, 5)
        sink.clean(IDENTITY, 4)
        assert self.done_epoch() == 5

    def test_a_visible_object_has_its_digest_in_its_metadata(self) -> None:
        self.committed(attempt_of())
        (name,) = visible(self.target)
        found = self.s3.client().head_object(Bucket=self.target.authority, Key=f"{self.target.path[1:]}/{name}")
        assert len(found["Metadata"][DIGEST]) == 64

    def test_no_object_grows_larger_than_one_request_copies(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(target_files.S3TargetFiles, "file_bytes_at_most", 10_000)
        sink = self.opened()
        transaction = sink.begin(attempt_of())
        transaction.write(rows_from(0, 5_000))
        committable = transaction.pre_commit()
        assert committable is not None
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        assert len(visible(self.target)) > 2
        self.target_has(rows_from(0, 5_000))

    @pytest.mark.parametrize("fate", [*UNANSWERED, Fate.LATE], ids=lambda each: each.name)
    def test_a_copy_whose_answer_is_lost_is_looked_for_and_sent_again_only_if_it_is_not_there(self, fate: Fate) -> None:
        """Each copy that is sent again may land when the file has been compacted already."""
        is_made = fate in (Fate.LOSE_ANSWER, Fate.FAIL_AFTER, Fate.LATE)
        sink, committables = self.claimed()
        with self.faults() as faults:
            faults.next(fate, "PUT")
            self.all_taken(sink.commit(committables))
            assert faults.seen["PUT"] == (2 if is_made else 3)
        self.target_has(rows_from(0, 2), rows_from(1, 2))

    def test_few_copies_of_a_file_are_under_way_at_once(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(connection, "PATIENCE_SECONDS", 4.0)
        monkeypatch.setattr(connection, "FIRST_PATIENCE_SECONDS", 4.0)
        monkeypatch.setattr(copies, "SECONDS", 0.3)
        sink, committables = self.claimed(tasks=1)
        with self.faults() as faults:
            faults.each(lambda method: Fate.LOSE_REQUEST if method == "PUT" else Fate.PASS)
            assert [answer.outcome for answer in sink.commit(committables)] == [Outcome.RETRY]
            assert faults.seen["PUT"] == copies.AT_MOST
            assert [record.__dict__["event"] for record in caplog.records] == ["CopySentAgain"] * (copies.AT_MOST - 1)

    def test_a_copy_that_got_no_answer_in_time_is_looked_for_before_the_next_try(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "PATIENCE_SECONDS", 0.1)
        sink, committables = self.claimed(tasks=1)
        with self.faults() as faults:
            faults.next(Fate.LATE, "PUT")
            assert [answer.outcome for answer in sink.commit(committables)] == [Outcome.RETRY]
            time.sleep(1.0)
            seen = faults.seen["PUT"]
            self.all_taken(sink.commit(committables))
            assert faults.seen["PUT"] == seen
        self.target_has(rows_from(0, 2))

    def test_a_copy_that_is_confirmed_and_not_made_is_tried_again(self) -> None:
        """A server here answers 200 and does nothing: only a look shows it."""
        sink, committables = self.claimed()
        with self.faults() as faults:
            faults.next(Fate.PRETEND, "PUT")
            outcomes = [answer.outcome for answer in sink.commit(committables)]
            assert outcomes == [Outcome.RETRY, Outcome.RETRY]
            self.all_taken(sink.commit(committables))
        self.target_has(rows_from(0, 2), rows_from(1, 2))

    def test_a_bucket_that_is_not_there_prevents_the_start(self) -> None:
        sink = FileSink("numbers", "s3://no-such-bucket/out", format="json")
        (violation,) = sink.check(self.plan())
        assert (violation.code, violation.found.partition(" ")[0]) == ("TG-SINK-UNUSABLE", "NoSuchBucket")

    def test_parts_that_a_dead_executor_has_left_are_found_and_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No list of objects shows them: its epoch has no other file."""
        monkeypatch.setattr(uploads, "PART_BYTES", 5 << 20)
        sink = self.opened()
        for epoch in (1, 7):
            self.place(sink).stage.create(attempt_of(epoch=epoch), 0).write(bytes(6 << 20))
        sink.clean(IDENTITY, 1)
        assert sink.pending(msgspec.structs.replace(IDENTITY, generation=IDENTITY.generation + 1)) == []
        found = sink.pending(IDENTITY)
        assert len(found) == self.open_uploads() == 2
        sink.abort(found)
        sink.abort(found)
        assert (sink.pending(IDENTITY), self.open_uploads()) == ([], 0)

    def test_an_attempt_whose_parts_were_given_up_while_it_lived_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(uploads, "PART_BYTES", 5 << 20)
        sink = self.opened()
        file = self.place(sink).stage.create(attempt_of(), 0)
        file.write(bytes(6 << 20))
        sink.abort(sink.pending(IDENTITY))
        with pytest.raises(TidegateError, match="TG-STORAGE-UNUSABLE"):
            file.close()
        assert staged(self.target) == []

    @pytest.mark.parametrize(("status", "code"), [(403, "AccessDenied"), (501, "NotImplemented")])
    def test_without_the_right_to_list_uploads_a_warning_names_the_rule_that_removes_them(
        self, caplog: pytest.LogCaptureFixture, status: int, code: str
    ) -> None:
        sink, committables = self.claimed()
        with self.faults():
            text = f"<Error><Code>{code}</Code><Message/></Error>".encode()

            def refused(**_: object) -> AWSResponse:
                return AWSResponse("", status, HTTPHeaders(), _Raw(text))  # pyright: ignore[reportArgumentType]

            client = connection.connection().client
            client.meta.events.register("before-send.s3.ListMultipartUploads", refused)  # pyright: ignore[reportArgumentType]
            assert sink.pending(IDENTITY) == []
            self.all_taken(sink.commit(committables))
            sink.clean(IDENTITY, 3)
            assert sink.pending(IDENTITY) == []
        (told,) = [record.getMessage() for record in caplog.records]
        assert "s3:ListBucketMultipartUploads" in told
        assert "AbortIncompleteMultipartUpload" in told

    def test_what_an_epoch_costs_is_bounded(self) -> None:
        """Three requests for each file, and as many for the claim, its look-up and the clean-up in each epoch."""
        sink = self.opened()
        costs: list[int] = []
        for epoch in range(3, 6):
            tasks = [self.prepared(sink, attempt_of(epoch=epoch, task=task), rows_from(task, 2)) for task in range(2)]
            with self.faults() as faults:
                self.all_taken(sink.commit(tasks))
                sink.clean(IDENTITY, epoch)
            costs.append(faults.seen.total())
        assert max(costs) <= 3 * 2 + 12

    def test_no_credentials_stand_in_what_is_written(self) -> None:
        committable = self.committed(attempt_of())
        self.opened().clean(IDENTITY, 0)
        secrets = {self.s3.environment["AWS_SECRET_ACCESS_KEY"], self.s3.environment["AWS_ACCESS_KEY_ID"] + ":"}
        files = open_checkpoint_files(self.target)
        texts = [repr(committable), repr(self.make_sink().__dict__), repr(self.make_sink().describe())]
        texts += [(content(files, each.name) or b"").decode() for each in files.list()]
        assert not [text for text in texts for secret in secrets if secret in text]
        assert staged(self.target) == []

    def claimed(self, tasks: int = 2) -> tuple[FileSink, list[Committable]]:
        """Prepared transactions of an epoch, which is claimed: the next writes are the copies."""
        sink = self.make_sink()
        sink.open(self.plan())
        committables = [self.prepared(sink, attempt_of(task=task), rows_from(task, 2)) for task in range(tasks)]
        self.place(sink).claims.claim(committables)
        return sink, committables

    def open_uploads(self) -> int:
        found = self.s3.client().list_multipart_uploads(Bucket=self.target.authority, Prefix=self.target.path[1:])
        return len(found.get("Uploads", []))

    def done_epoch(self) -> int | None:
        claims = self.place(self.make_sink()).claims
        record = open_storage(claims.root).read(f"{claims.folder(IDENTITY)}/done.json")
        return None if record is None else json.loads(record)["epoch"]

    def faults(self) -> _Faults:
        return _Faults(self.s3)


class _Raw(io.BytesIO):
    """The body of an answer that botocore reads."""

    def stream(self) -> Iterator[bytes]:
        yield self.read()


class _Faults(HttpFaults):
    """Faults in front of the server, for all clients in the block."""

    def __init__(self, s3: S3Server) -> None:
        super().__init__(s3.endpoint)
        self._variables = set_environment({**s3.environment, "AWS_ENDPOINT_URL_S3": self.endpoint})

    def __enter__(self) -> _Faults:
        super().__enter__()
        self._variables.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._variables.__exit__(None, None, None)
        super().__exit__(None, None, None)


@pytest.mark.more
class TestFilesOnMoto(RemoteFilesContract):
    """Another server, with other answers: by its own code, in this process."""

    lives_in_one_process = True

    @pytest.fixture(autouse=True)
    def _server(self, moto: S3Endpoint) -> None:
        self.root = moto.folder()
