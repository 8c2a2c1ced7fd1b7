"""A wrong set-up of S3 is told by one code, what S3 has answered, and a next step, without a secret.

By servers that can say so, and else by the answers that AWS documents.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from datetime import timedelta

import botocore.auth
import pytest
from botocore.compat import get_current_datetime

from tests.support.command import tidegate
from tests.support.http_faults import Fate, HttpFaults, Refusal
from tests.support.s3 import BUCKET, READER, S3Endpoint, S3Server, environment, set_environment
from tests.support.today import turn
from tidegate.core.errors import TidegateError
from tidegate.storages.check import check_storage
from tidegate.storages.opening import open_storage
from tidegate.storages.s3 import connection
from tidegate.storages.storage import Storage

WHERE = f"s3://{BUCKET}/errors"
TOKEN = "the-token-of-a-session"

ACTS: Mapping[str, Callable[[Storage], object]] = {
    "put": lambda storage: storage.put_if_absent("job.json", b""),
    "replace": lambda storage: storage.replace("job.json", b""),
    "read": lambda storage: storage.read("job.json"),
    "look": lambda storage: storage.look("job.json"),
    "list": lambda storage: storage.list(""),
    "delete": lambda storage: storage.delete("job.json"),
    "delete all": lambda storage: storage.delete_all(["job.json", "other.json"]),
}

OTHER_REGION = (("x-amz-bucket-region", "eu-west-3"),)
ANSWERS = [
    (Refusal(403, "AccessDenied", "Access Denied"), "s3:PutObject"),
    (Refusal(403, "AllAccessDisabled", "All access to this object has been disabled."), "s3:PutObject"),
    (Refusal(403, "InvalidAccessKeyId", "The access key ID does not exist in our records."), "valid credentials"),
    (Refusal(403, "SignatureDoesNotMatch", "The request signature does not match."), "valid credentials"),
    (Refusal(400, "InvalidToken", "The provided token is malformed or otherwise not valid."), "valid credentials"),
    (Refusal(400, "ExpiredToken", "The provided token has expired."), "renew the session token"),
    (Refusal(403, "RequestTimeTooSkewed", "The difference is too large."), "clock"),
    (Refusal(301, "PermanentRedirect", "Use another endpoint.", OTHER_REGION), "AWS_REGION"),
    (Refusal(400, "AuthorizationHeaderMalformed", "expecting 'eu-west-3'", OTHER_REGION), "AWS_REGION"),
    (Refusal(400, "IllegalLocationConstraintException", "another region"), "AWS_REGION"),
    (Refusal(405, "MethodNotAllowed", "The method is not allowed."), "what the store reports"),
]
"""What S3 answers, as AWS documents it, and a part of the next step."""


@turn(1, of=4)
@pytest.mark.parametrize(("answer", "next_step"), ANSWERS, ids=lambda each: getattr(each, "code", ""))
def test_each_refusal_is_told_with_its_cure_by_every_request(
    s3: S3Server, answer: Refusal, next_step: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The answer to a HEAD has no text: its reason is asked for."""
    told: list[str] = []
    with HttpFaults(s3.endpoint) as faults, set_environment(credentials(s3, faults)):
        faults.each(lambda _: answer)
        storage = open_storage(WHERE)
        for what, act in ACTS.items():
            with pytest.raises(TidegateError) as caught:
                act(storage)
            assert caught.value.code == "TG-STORAGE-UNUSABLE", what
            assert caught.value.found.startswith(answer.code), what
            assert next_step in caught.value.next_step, what
            assert caught.value.where.startswith(WHERE), what
            told.append(str(caught.value))
        done = tidegate("check", "--json", "--dir", WHERE)
    (line,) = [each for each in json.loads(done.stdout) if each["what"] == "storage"]
    assert (line["health"], done.code) == ("FAILED", 1)
    assert f"TG-STORAGE-UNUSABLE: expected to create a record; found {answer.code}" in line["detail"]
    assert next_step in line["next"]
    out = capfd.readouterr()
    for secret in (s3.secret, TOKEN):
        assert secret not in "".join([*told, done.stdout, done.stderr, out.out, out.err])


@pytest.mark.parametrize("passing", [3, 13, 71], ids=["trials", "races", "syncs"])
def test_a_check_tells_of_a_server_that_refuses_half_way_through(s3: S3Server, passing: int) -> None:
    with HttpFaults(s3.endpoint) as faults, set_environment({**s3.environment, "AWS_ENDPOINT_URL_S3": faults.endpoint}):
        faults.each(lambda _: ANSWERS[0][0] if faults.seen.total() > passing else Fate.PASS)
        done = tidegate("check", "--json", "--dir", WHERE)
    (line,) = [each for each in json.loads(done.stdout) if each["what"] == "storage"]
    assert (line["health"], done.code) == ("FAILED", 1)
    assert "found AccessDenied" in line["detail"]


def test_a_server_that_ignores_conditions_is_refused_by_check_and_at_a_start(moto_server: S3Endpoint) -> None:
    """It answers 200 to each put, as an old gateway does."""
    with (
        HttpFaults(moto_server.endpoint) as faults,
        set_environment({**moto_server.environment, "AWS_ENDPOINT_URL_S3": faults.endpoint}),
    ):
        faults.each(lambda _: Fate.UNCONDITIONAL)
        where = moto_server.folder()
        done = tidegate("check", "--json", "--dir", str(where))
        at_a_start = check_storage(open_storage(where))
    (line,) = [each for each in json.loads(done.stdout) if each["what"] == "storage"]
    assert (line["health"], done.code) == ("FAILED", 1)
    assert "TG-STORAGE-UNUSABLE: expected a second put of the same name gives False; found True" in line["detail"]
    assert "honours conditional puts" in line["next"]
    assert at_a_start is not None
    assert f"{at_a_start.code}: expected {at_a_start.expected}" in line["detail"]


@pytest.mark.more
@pytest.mark.timeout(3600)
def test_a_store_whose_names_stay_taken_after_a_delete_is_refused(versitygw: S3Endpoint) -> None:
    """In a bucket with versions: there the mark of a delete counts as an object."""
    bucket = f"versions-{secrets.token_hex(4)}"
    versitygw.client().create_bucket(Bucket=bucket)
    assert check_storage(open_storage(f"s3://{bucket}/jobs")) is None
    versitygw.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    found = check_storage(open_storage(f"s3://{bucket}/jobs"))
    assert found is not None
    assert found.found.startswith("PreconditionFailed")
    assert "without versioning" in found.next_step


def test_a_put_that_is_refused_for_an_object_that_is_not_there_is_told_soon(s3: S3Server) -> None:
    with HttpFaults(s3.endpoint) as faults, set_environment({**s3.environment, "AWS_ENDPOINT_URL_S3": faults.endpoint}):
        storage = open_storage(s3.folder())
        assert storage.list("") == []
        refusal = Refusal(412, "PreconditionFailed", "At least one of the conditions did not hold.")
        faults.each(lambda method: refusal if method == "PUT" else Fate.PASS)
        with pytest.raises(TidegateError, match="PreconditionFailed") as caught:
            storage.put_if_absent("decided/7", b"")
        assert "without versioning" in caught.value.next_step
        assert faults.seen["PUT"] == 5


def credentials(s3: S3Server, faults: HttpFaults) -> dict[str, str]:
    """By way of the proxy, with those of a session."""
    return {**s3.environment, "AWS_ENDPOINT_URL_S3": faults.endpoint, "AWS_SESSION_TOKEN": TOKEN}


@pytest.mark.parametrize(
    ("changed", "where", "found", "next_step"),
    [
        ({}, "s3://no-such-bucket-here/jobs", "NoSuchBucket", "create the bucket"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, WHERE, "SignatureDoesNotMatch", "valid credentials"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, WHERE, "InvalidAccessKeyId", "valid credentials"),
        ({"AWS_ACCESS_KEY_ID": ""}, WHERE, "NoCredentials", "valid credentials"),
        ({"AWS_PROFILE": "nobody"}, WHERE, "ProfileNotFound", "valid credentials"),
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"}, WHERE, "EndpointConnection", "endpoint"),
        ({"AWS_ENDPOINT_URL_S3": "https://127.0.0.1:{port}"}, WHERE, "SSLError", "AWS_CA_BUNDLE"),
        ({}, "s3://No_Bucket/jobs", "InvalidBucketName", "its name"),
    ],
)
def test_a_wrong_set_up_is_told_with_its_cure(
    s3: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, str],
    where: str,
    found: str,
    next_step: str,
) -> None:
    monkeypatch.setattr(connection, "FIRST_PATIENCE_SECONDS", 0.1)
    port = s3.endpoint.rpartition(":")[2]
    changed = {name: value.format(port=port) for name, value in changed.items()}
    wanted = {name: value for name, value in {**s3.environment, **changed}.items() if value}
    with set_environment(wanted), pytest.raises(TidegateError) as caught:
        open_storage(where).put_if_absent("job.json", b"")
    assert caught.value.code == "TG-STORAGE-UNUSABLE"
    assert caught.value.found.startswith(found)
    assert next_step in caught.value.next_step
    assert caught.value.where in (f"{where}/job.json", where)
    assert wanted.get("AWS_SECRET_ACCESS_KEY", "secret") not in str(caught.value)


def test_a_user_who_may_only_read_is_told_which_rights_are_missing(s3: S3Server) -> None:
    storage = open_storage(WHERE)
    storage.put_if_absent("job.json", b"{}")
    with set_environment(environment(s3.endpoint, *READER)):
        reader = open_storage(WHERE)
        assert (reader.read("job.json"), reader.list("")) == (b"{}", ["job.json"])
        for act in (ACTS["replace"], ACTS["delete"], ACTS["delete all"], lambda each: each.put_if_absent("new", b"")):
            with pytest.raises(TidegateError) as caught:
                act(reader)
            assert caught.value.found.startswith("AccessDenied")
            assert "s3:DeleteObject" in caught.value.next_step
    assert storage.read("job.json") == b"{}"


def test_a_clock_that_is_an_hour_off_is_told(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    late = timedelta(hours=1)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *words: get_current_datetime(*words) - late)
    with pytest.raises(TidegateError) as caught:
        open_storage(WHERE).put_if_absent("job.json", b"")
    assert caught.value.found.startswith("RequestTimeTooSkewed")
    assert "NTP" in caught.value.next_step
