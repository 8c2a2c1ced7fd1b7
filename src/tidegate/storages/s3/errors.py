"""What an error of S3 means: the object is absent, taken, or the request may succeed a moment later; and its cure."""

from __future__ import annotations

from collections.abc import Mapping

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    ResponseStreamingError,
    SSLError,
)
from botocore.exceptions import ConnectionError as NoConnectionError

from tidegate.core.errors import Code, TidegateError

S3_ERRORS = (BotoCoreError, ClientError, HTTPClientError)
"""Everything that a request raises for a reason of the server, the network or the set-up."""


def is_absent(error: Exception) -> bool:
    """True if the object does not exist. A HEAD has no code but the status."""
    return _code(error) in _ABSENT


def is_taken(error: Exception) -> bool:
    """True if a conditional put found an object: perhaps the one of its own first try."""
    return _status(error) == _PRECONDITION_FAILED


def is_without_upload(error: Exception) -> bool:
    """True if an upload in parts does not exist (any more): it was completed, or given up."""
    return _code(error) == "NoSuchUpload"


def is_passing(error: Exception) -> bool:
    """True if the same request may succeed a moment later. Whether it was executed is unknown."""
    if isinstance(error, ClientError):
        return _code(error) in _PASSING or (_status(error) >= _OF_SERVER and _status(error) not in _FINAL)
    return isinstance(error, _OF_NETWORK) and not isinstance(error, SSLError)


def is_throttled(error: Exception) -> bool:
    """True if the server asks for fewer requests."""
    return _status(error) in _BUSY or _code(error) in _THROTTLED


def is_surely_not_done(error: Exception) -> bool:
    """True for a request that may succeed a moment later, if the server has not begun to execute it."""
    return is_throttled(error) or isinstance(error, _NEVER_SENT)


def is_without_reason(error: Exception) -> bool:
    """True for the refusal of a HEAD: its answer has a status alone, since it has no body."""
    return _code(error).isdigit() and _status(error) < _OF_SERVER


def is_folder_in_use(error: Exception) -> bool:
    """True if a store that has folders keeps one, because there is something in it."""
    return _code(error) in _IN_USE


def is_refused_copy(error: Exception) -> bool:
    """True if a server refuses a copy by a code that it may have for an absent source, too."""
    return isinstance(error, ClientError) and _status(error) in _REFUSED_COPY


def is_refused_list(error: BaseException | None) -> bool:
    """True if these credentials may not list something, or the store has no such request."""
    return isinstance(error, ClientError) and _status(error) in _REFUSED_LIST


def is_too_large_to_copy(error: Exception) -> bool:
    """True if an object is too large for one request that copies it (5 GB on AWS)."""
    return _code(error) in _TOO_LARGE


def s3_error(error: Exception, where: str, doing: str) -> TidegateError:
    """`error` as an error of the catalogue: the store is full, or it cannot be used."""
    return TidegateError(
        Code.STORAGE_FULL if _code(error) in _FULL else Code.STORAGE_UNUSABLE,
        expected=f"to {doing}",
        found=_said(error),
        where=where,
        next_step=_next_step(error),
    )


_OF_NETWORK = (NoConnectionError, HTTPClientError, IncompleteReadError, ResponseStreamingError)
_NEVER_SENT = (EndpointConnectionError, ConnectTimeoutError)
_PRECONDITION_FAILED = 412
_OF_SERVER = 500
_REFUSED_COPY = frozenset({400, 404, 500})
_REFUSED_LIST = frozenset({403, 405, 501})
_FINAL = frozenset({501, 505, 507})
_BUSY = frozenset({429, 503})
_ABSENT = frozenset({"NoSuchKey", "404", "NotFound"})
_IN_USE = frozenset({"ErrDirectoryNotEmpty", "DirectoryNotEmpty"})
_TOO_LARGE = frozenset({"EntityTooLarge", "InvalidRequest", "InvalidArgument"})
_FULL = frozenset({"QuotaExceeded", "InsufficientStorage", "XMinioStorageFull", "StorageFull", "507"})
_THROTTLED = frozenset({"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests"})
_PASSING = _THROTTLED | {
    "ConditionalRequestConflict",
    "OperationAborted",
    "RequestTimeout",
    "RequestTimeoutException",
    "IncompleteBody",
    "BadDigest",
    "429",
}


def _code(error: Exception) -> str:
    """The code in the server's answer; "" for errors without an answer."""
    return error.response.get("Error", {}).get("Code", "") if isinstance(error, ClientError) else ""


def _status(error: Exception) -> int:
    if not isinstance(error, ClientError):
        return 0
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def _said(error: Exception) -> str:
    if isinstance(error, ClientError):
        message = error.response.get("Error", {}).get("Message", "")
        return f"{_code(error)} (HTTP {_status(error)}){f': {message}' if message else ''}"
    return f"{type(error).__name__}: {error}"


def _next_step(error: Exception) -> str:
    for code in (_code(error), str(_status(error))):
        if code in _NEXT_STEPS:
            return _NEXT_STEPS[code]
    for kind, step in _OF_KIND:
        if isinstance(error, kind):
            return step
    return _LOOK if is_passing(error) else _OTHER


_RIGHTS = (
    "give these credentials the rights s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload on the"
    " objects and s3:ListBucket on the bucket, then start again"
)
_CREDENTIALS = (
    "give valid credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile (AWS_PROFILE), a web identity, or"
    " the role of the machine; then start again"
)
_EXPIRED = "renew the session token (for example `aws sso login`, or a new AWS_SESSION_TOKEN), then start again"
_CLOCK = "set the clock of this machine (NTP): S3 refuses requests that are more than 15 minutes off; then start again"
_REGION = "set the bucket's region (AWS_REGION, or `region` of the profile), then start again"
_BUCKET = "create the bucket, or correct its name in the URI or the endpoint (AWS_ENDPOINT_URL_S3), then start again"
_ENDPOINT = (
    "check the endpoint (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL; without one it is AWS itself), the network and the"
    " server, then start again"
)
_CERTIFICATE = "give the certificate of the server's authority (AWS_CA_BUNDLE), or correct the endpoint's scheme"
_CONDITION = "use a store that honours conditional puts (PutObject with If-None-Match: *)"
_ROOM = "make room in the store, or raise its quota, then start again: nothing was half written"
_LOOK = "look at the state of the store, and start again when it answers: nothing was half written"
_OTHER = "read what the store reports, correct it, then start again"
_TAKEN = (
    "use a bucket without versioning, or another store: this one refuses to create an object although there is none, as"
    " where a name stays taken after a delete"
)
_LOCKED = "take a bucket without object lock, or a prefix that no retention and no legal hold covers"

_NEXT_STEPS: Mapping[str, str] = {
    "NoSuchBucket": _BUCKET,
    "InvalidBucketName": _BUCKET,
    "AccessDenied": _RIGHTS,
    "AllAccessDisabled": _RIGHTS,
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "InvalidToken": _CREDENTIALS,
    "InvalidClientTokenId": _CREDENTIALS,
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "RequestTimeTooSkewed": _CLOCK,
    "RequestExpired": _CLOCK,
    "PermanentRedirect": _REGION,
    "AuthorizationHeaderMalformed": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "InvalidRegion": _REGION,
    "NotImplemented": _CONDITION,
    "PreconditionFailed": _TAKEN,
    "ObjectLocked": _LOCKED,
    "InvalidRetentionPeriod": _LOCKED,
    **dict.fromkeys(_FULL, _ROOM),
    "301": _REGION,
    "403": _RIGHTS,
    "501": _CONDITION,
    "507": _ROOM,
}
"""By the code of the answer, then by its status: an answer to a HEAD has no code of its own."""

_OF_KIND: tuple[tuple[type[Exception] | tuple[type[Exception], ...], str], ...] = (
    ((NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, ProfileNotFound), _CREDENTIALS),
    (SSLError, _CERTIFICATE),
    ((NoConnectionError, HTTPClientError), _ENDPOINT),
)
