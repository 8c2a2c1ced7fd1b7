"""The connection of this process to S3: one client of boto3 for each set of AWS's variables."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from botocore.session import Session
    from types_boto3_s3.client import S3Client

PATIENCE_SECONDS = 60.0
"""How long requests that fail for a moment are repeated: the server is away, too busy, or has an error of its own."""

FIRST_PATIENCE_SECONDS = 5.0
"""The same before the server has answered this process once, as with a wrong endpoint, and when the longer patience is
over, until it answers again.
"""

ANSWER_SECONDS = 30.0
"""How long one request waits for its answer, where nothing else is asked for. Then it is tried again."""

PARTS_ON_THEIR_WAY = 8
"""So many parts of all uploads of a process are in memory and being sent. A driver's memory may be bounded by its
cluster, which kills it.
"""

_CONNECT_SECONDS = 5.0
_CONNECTIONS_AT_MOST = 32
_NO_REGION = "aws-global"  # what boto3 calls a region that was not set
_JAVA_CREDENTIALS = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
"""Variables, web identity, the profile, the container, the instance. Hadoop's own list lacks the second and third."""

_OF_AWS = (".amazonaws.com", ".amazonaws.com.cn")


class S3Connection:
    """A client that threads share. It finds endpoint, region and credentials by AWS's usual chains: variables, the
    profile, web identity, the instance.
    """

    def __init__(self, client: S3Client, *, has_own_endpoint: bool, session: Session | None = None) -> None:
        """`session`: which finds the credentials of the client."""
        self.client = client
        self._session = session
        self._has_own_endpoint = has_own_endpoint
        self._has_answered = False
        self.copies_in_doubt = set[str]()
        """The targets of copies that got no answer, until their objects are seen."""
        self.free_parts = threading.BoundedSemaphore(PARTS_ON_THEIR_WAY)
        """Taken before a part of an upload is put aside for sending, given back when it is sent."""
        self._said = set[str]()

    def note_answer(self) -> None:
        """The server has answered a request as it was asked."""
        self._has_answered = True

    def note_absence(self) -> None:
        """The server has not answered for as long as it is waited for."""
        self._has_answered = False

    def is_first(self, what: str) -> bool:
        """True at the first call with this text: for warnings that a process gives once."""
        is_new = what not in self._said
        self._said.add(what)
        return is_new

    @property
    def patience_seconds(self) -> float:
        """How long a request is repeated that fails for a moment."""
        return PATIENCE_SECONDS if self._has_answered else FIRST_PATIENCE_SECONDS

    def hadoop_settings(self) -> dict[str, str]:
        """The same endpoint and region for Hadoop's connector, and a chain of credentials as long as boto3's."""
        settings = {"aws.credentials.provider": _JAVA_CREDENTIALS}
        region = self.client.meta.region_name
        if region and region != _NO_REGION:
            settings["endpoint.region"] = region
        if self._has_own_endpoint:
            endpoint = self.client.meta.endpoint_url
            settings |= {
                "endpoint": endpoint,
                "path.style.access": "true",
                "connection.ssl.enabled": str(endpoint.startswith("https:")).lower(),
            }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}

    def client_settings(self) -> dict[str, str]:
        """The same endpoint, region and credentials for another client in this process, by AWS's names.

        The credentials are those of this moment, and secret: they are for one use.
        """
        region = self.client.meta.region_name
        found = {"AWS_REGION": region} if region and region != _NO_REGION else dict[str, str]()
        if self._has_own_endpoint:
            endpoint = self.client.meta.endpoint_url
            found |= {
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_ALLOW_HTTP": str(endpoint.startswith("http:")).lower(),
                "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
            }
            found.setdefault("AWS_REGION", "us-east-1")  # every request is signed with one
        credentials = None if self._session is None else self._session.get_credentials()
        if credentials is None:
            return found
        frozen = credentials.get_frozen_credentials()
        named = {
            "AWS_ACCESS_KEY_ID": frozen.access_key,
            "AWS_SECRET_ACCESS_KEY": frozen.secret_key,
            "AWS_SESSION_TOKEN": frozen.token,
        }
        return found | {name: value for name, value in named.items() if value}


def connection(answer_seconds: float | None = None) -> S3Connection:
    """The connection for AWS's variables as they are now. Made once in each process: none is used over a fork.

    `answer_seconds`: how long one request waits for its answer; None: ANSWER_SECONDS.
    """
    seconds = ANSWER_SECONDS if answer_seconds is None else answer_seconds
    key = frozenset((name, value) for name, value in os.environ.items() if name.startswith("AWS_")), seconds
    with _made.lock:
        found = _made.connections.get(key)
        if found is None:
            found = _made.connections[key] = _connected(seconds)
    return found


class _Made:
    """The connections of one process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connections: dict[tuple[frozenset[tuple[str, str]], float], S3Connection] = {}

    def forget(self) -> None:
        """In a forked child: sockets and locks belong to the parent."""
        self.__init__()


_made = _Made()
os.register_at_fork(after_in_child=_made.forget)


def _connected(answer_seconds: float) -> S3Connection:
    """Path style where an endpoint is set, unless the profile names a style: few servers have a name for each bucket.

    The client itself repeats nothing: a write that decides something is looked at before it is tried again.
    """
    import boto3
    from botocore.config import Config
    from botocore.session import Session

    config = Config(
        connect_timeout=min(_CONNECT_SECONDS, answer_seconds),
        read_timeout=answer_seconds,
        retries={"mode": "standard", "total_max_attempts": 1},
        max_pool_connections=_CONNECTIONS_AT_MOST,
        request_checksum_calculation="when_required",  # each write has its Content-MD5, which every server knows
        response_checksum_validation="when_required",
        user_agent_extra="tidegate",
    )
    core = Session()
    session = boto3.session.Session(botocore_session=core)

    def client(config: Config) -> S3Client:
        # AWS_REGION is what AWS's own containers set and Spark's client reads; boto3 reads AWS_DEFAULT_REGION only.
        return session.client("s3", region_name=os.environ.get("AWS_REGION") or None, config=config)  # pyright: ignore[reportUnknownMemberType]

    found = client(config)
    if (urlsplit(found.meta.endpoint_url).hostname or "").endswith(_OF_AWS):
        return S3Connection(found, has_own_endpoint=False, session=core)
    if not _names_style(core):
        found = client(config.merge(Config(s3={"addressing_style": "path"})))
    return S3Connection(found, has_own_endpoint=True, session=core)


def _names_style(core: Session) -> bool:
    """True if the user's profile names the style of addresses."""
    return "addressing_style" in core.get_scoped_config().get("s3", {})
