"""What an error of S3 means, and what to do about it: for those that no server of the tests gives."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError, SSLError

from tidegate.storages.s3.errors import is_absent, is_passing, is_taken, s3_error


def answer(status: int, code: str) -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": "as told"}, "ResponseMetadata": {"HTTPStatusCode": status}},  # pyright: ignore[reportArgumentType]
        "PutObject",
    )


@pytest.mark.parametrize(
    ("error", "next_step"),
    [
        (answer(400, "ExpiredToken"), "renew the session token"),
        (answer(403, "RequestTimeTooSkewed"), "set the clock"),
        (answer(301, "PermanentRedirect"), "set the bucket's region"),
        (answer(400, "AuthorizationHeaderMalformed"), "set the bucket's region"),
        (answer(403, "AccessDenied"), "s3:PutObject"),
        (answer(403, "403"), "s3:ListBucket"),
        (answer(501, "NotImplemented"), "honours conditional puts"),
        (answer(503, "SlowDown"), "start again when it answers"),
        (answer(418, "Teapot"), "read what the store reports"),
        (NoCredentialsError(), "give valid credentials"),
        (EndpointConnectionError(endpoint_url="http://127.0.0.1:1"), "check the endpoint"),
        (SSLError(endpoint_url="https://127.0.0.1:1", error=Exception("self-signed")), "AWS_CA_BUNDLE"),
    ],
)
def test_each_error_has_its_cure(error: Exception, next_step: str) -> None:
    told = s3_error(error, "s3://bucket/job.json", "create a record")
    assert told.code == "TG-STORAGE-UNUSABLE"
    assert next_step in told.next_step
    assert told.where == "s3://bucket/job.json"


@pytest.mark.parametrize("error", [answer(507, "InsufficientStorage"), answer(403, "QuotaExceeded")])
def test_a_full_store_is_told_as_full(error: Exception) -> None:
    assert s3_error(error, "s3://bucket/job.json", "create a record").code == "TG-STORAGE-FULL"


@pytest.mark.parametrize(
    "error",
    [
        answer(500, "InternalError"),
        answer(503, "SlowDown"),
        answer(429, "429"),
        answer(409, "ConditionalRequestConflict"),
        answer(400, "RequestTimeout"),
        EndpointConnectionError(endpoint_url="http://127.0.0.1:1"),
        ReadTimeoutError(endpoint_url="http://127.0.0.1:1"),
    ],
)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    assert is_passing(error)
    assert not is_taken(error)
    assert not is_absent(error)


@pytest.mark.parametrize(
    "error",
    [
        answer(403, "AccessDenied"),
        answer(404, "NoSuchBucket"),
        answer(501, "NotImplemented"),
        answer(507, "InsufficientStorage"),
        SSLError(endpoint_url="https://127.0.0.1:1", error=Exception("self-signed")),
        NoCredentialsError(),
    ],
)
def test_what_does_not_pass_is_told_at_once(error: Exception) -> None:
    assert not is_passing(error)
    assert not is_absent(error)
