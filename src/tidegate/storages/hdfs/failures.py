"""What an operation on HDFS can fail with: a closed set, read from the exceptions of `hdfs-native`."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from enum import Enum, auto

from tidegate.core.errors import Code, TidegateError


class Trouble(Enum):
    """Kinds of failures."""

    ABSENT = auto()
    EXISTS = auto()
    NOT_EMPTY = auto()
    UNKNOWN_HOST = auto()
    REFUSED = auto()
    """No process listens at the address."""
    AWAY = auto()
    """No answer, or an answer that another try may improve."""
    STANDBY = auto()
    """No NameNode that answers is the active one."""
    SAFE_MODE = auto()
    NO_DATA_NODE = auto()
    FULL = auto()
    QUOTA = auto()
    RIGHTS = auto()
    LOGIN = auto()
    NO_NAME_NODE = auto()
    NOT_A_FOLDER = auto()
    UNSUPPORTED = auto()
    OTHER = auto()


UNREACHED = frozenset({Trouble.UNKNOWN_HOST, Trouble.REFUSED})
"""There was no connection, so the NameNode has not heard of the call."""

RETRIED = UNREACHED | {Trouble.AWAY, Trouble.STANDBY, Trouble.SAFE_MODE, Trouble.NO_DATA_NODE, Trouble.FULL}
"""What time may cure. A NameNode that has just started says FULL, too, until its DataNodes have reported."""


class HdfsFailure(Exception):
    """An operation failed. `found`: what the client or the NameNode says, in one line."""

    def __init__(self, trouble: Trouble, found: str) -> None:
        super().__init__(found)
        self.trouble = trouble
        self.found = found


def failure_of(error: Exception) -> HdfsFailure:
    """The failure that an exception of `hdfs-native` stands for."""
    if isinstance(error, FileNotFoundError):
        return HdfsFailure(Trouble.ABSENT, _first_line(str(error)))
    if isinstance(error, FileExistsError):
        return HdfsFailure(Trouble.EXISTS, _first_line(str(error)))
    if isinstance(error, IsADirectoryError):
        return HdfsFailure(Trouble.NOT_A_FOLDER, _first_line(str(error)))
    if isinstance(error, NotImplementedError):
        return HdfsFailure(Trouble.UNSUPPORTED, _first_line(str(error)))
    if isinstance(error, OSError):
        found = _first_line(str(error))
        trouble = next((trouble for part, trouble in _CONNECTING.items() if part in found), Trouble.AWAY)
        return HdfsFailure(trouble, found)
    return _of_a_text(str(error))


def hdfs_error(failure: HdfsFailure, where: str, doing: str) -> TidegateError:
    """A failure as an error of the catalogue."""
    full = failure.trouble in (Trouble.FULL, Trouble.QUOTA)
    return TidegateError(
        Code.STORAGE_FULL if full else Code.STORAGE_UNUSABLE,
        expected=f"to {doing} on HDFS",
        found=failure.found,
        where=where,
        next_step=_NEXT_STEPS[failure.trouble],
    )


@contextmanager
def translated(where: str, doing: str) -> Generator[None, None, None]:
    """Run the body; a failure in it becomes a TidegateError."""
    try:
        yield
    except HdfsFailure as failure:
        raise hdfs_error(failure, where, doing) from failure


def _of_a_text(text: str) -> HdfsFailure:
    """`hdfs-native` raises RuntimeError for all else, with a text such as `RPCError("java.io.IOException", "...")`."""
    remote = _REMOTE.search(text)
    if remote is None:
        trouble = next((trouble for begin, trouble in _LOCAL.items() if text.startswith(begin)), Trouble.OTHER)
        return HdfsFailure(trouble, _first_line(text))
    name, message = remote[1].rpartition(".")[2].rpartition("$")[2], remote[2]
    found = f"{name}: {_first_line(message)}"
    for part, trouble in _MESSAGES.items():
        if part in message:
            return HdfsFailure(trouble, found)
    return HdfsFailure(_REMOTE_TROUBLES.get(name, Trouble.OTHER), found)


def _first_line(text: str) -> str:
    line = text.replace("\\n", "\n").replace("\\t", " ").strip().partition("\n")[0]
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


_LONGEST = 300
_CONNECTING = {"failed to lookup address": Trouble.UNKNOWN_HOST, "Connection refused": Trouble.REFUSED}
_REMOTE = re.compile(r'RPCError\("([\w.$]+)", "(.*)"\)', re.DOTALL)

_REMOTE_TROUBLES: Mapping[str, Trouble] = {
    "SafeModeException": Trouble.SAFE_MODE,
    "StandbyException": Trouble.STANDBY,
    "RetriableException": Trouble.AWAY,
    "RetryStartFileException": Trouble.AWAY,
    "RecoveryInProgressException": Trouble.AWAY,
    "NotReplicatedYetException": Trouble.AWAY,
    "ServerNotRunningYetException": Trouble.AWAY,
    "LeaseExpiredException": Trouble.AWAY,  # the open file was removed: another try may succeed
    "NSQuotaExceededException": Trouble.QUOTA,
    "DSQuotaExceededException": Trouble.QUOTA,
    "QuotaByStorageTypeExceededException": Trouble.QUOTA,
    "AccessControlException": Trouble.RIGHTS,
    "AuthorizationException": Trouble.RIGHTS,
    "SnapshotAccessControlException": Trouble.RIGHTS,
    "InvalidToken": Trouble.LOGIN,
    "SaslException": Trouble.LOGIN,
    "PathIsNotEmptyDirectoryException": Trouble.NOT_EMPTY,
    "ParentNotDirectoryException": Trouble.NOT_A_FOLDER,
}
"""By the simple name of the NameNode's exception."""

_MESSAGES: Mapping[str, Trouble] = {
    "There are 0 datanode(s) running": Trouble.NO_DATA_NODE,
    "could only be written to 0 of": Trouble.FULL,
    "is non empty": Trouble.NOT_EMPTY,
}
"""By a part of the message, where the exception is only an IOException."""

_LOCAL: Mapping[str, Trouble] = {
    "DataTransferError": Trouble.AWAY,
    "BlocksNotFound": Trouble.AWAY,
    "ChecksumError": Trouble.AWAY,
    "OperationFailed": Trouble.AWAY,
    "SASLError": Trouble.LOGIN,
    "GSSAPIError": Trouble.LOGIN,
    "NoSASLMechanism": Trouble.LOGIN,
    'InvalidArgument("No NameNode hosts found")': Trouble.NO_NAME_NODE,
}
"""By the begin of what the client itself says."""

_WAIT = "wait until the NameNode answers (`hdfs dfsadmin -report`), then start again"
_ADDRESS = f"check host and port of the URI and the network between; {_WAIT}"
_LOOK = "look at the NameNode's log, then start again"

_NEXT_STEPS: Mapping[Trouble, str] = {
    Trouble.ABSENT: "look who removed it (the NameNode's audit log), then start again",
    Trouble.EXISTS: "another process has written it: look which one (the NameNode's audit log), then start again",
    Trouble.NOT_EMPTY: _LOOK,
    Trouble.UNKNOWN_HOST: "check the host in the URI (checkpointing.dir), and name resolution on this machine",
    Trouble.REFUSED: _ADDRESS,
    Trouble.AWAY: _ADDRESS,
    Trouble.STANDBY: "make a NameNode active (`hdfs haadmin -getAllServiceState` shows each one), or, if the URI names"
    " one NameNode, name the name service in it; then start again",
    Trouble.SAFE_MODE: "wait until the NameNode leaves safe mode, or end it (`hdfs dfsadmin -safemode leave`)",
    Trouble.NO_DATA_NODE: "start the DataNodes (`hdfs dfsadmin -report` lists them), then start again",
    Trouble.FULL: "make space, or mend the DataNodes (`hdfs dfsadmin -report`), then start again",
    Trouble.QUOTA: "raise the quota (`hdfs dfsadmin -setSpaceQuota`, `-setQuota`) or remove files, then start again",
    Trouble.RIGHTS: "give this user (HADOOP_USER_NAME) the right to write there (`hdfs dfs -chmod`), then start again",
    Trouble.LOGIN: "log in (`kinit`; `klist` shows the ticket), then start again",
    Trouble.NO_NAME_NODE: "set HADOOP_CONF_DIR to the folder of hdfs-site.xml, or write host:port in the URI",
    Trouble.NOT_A_FOLDER: "move away the file that stands where a folder is needed, or the folder, then start again",
    Trouble.UNSUPPORTED: "choose a folder with replicated files: erasure coding and encryption zones are not supported",
    Trouble.OTHER: _LOOK,
}
