"""What HDFS says when something fails, as a closed set with a next step each."""

from __future__ import annotations

import pytest

from tidegate.core.errors import Code
from tidegate.storages.hdfs.failures import _NEXT_STEPS, RETRIED, HdfsFailure, Trouble, failure_of, hdfs_error

STACK = "\\n\\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.startFile(FSNamesystem.java:2700)\\n"


def remote(name: str, message: str) -> RuntimeError:
    """As hdfs-native 0.14.7 raises what a NameNode answers."""
    return RuntimeError(f'RPCError("{name}", "{message}{STACK}")')


@pytest.mark.parametrize(
    ("error", "trouble", "found"),
    [
        (FileNotFoundError("/jobs/a"), Trouble.ABSENT, "/jobs/a"),
        (FileExistsError("rename destination /jobs/a already exists"), Trouble.EXISTS, "rename destination"),
        (OSError("Connection refused (os error 111)"), Trouble.REFUSED, "Connection refused"),
        (OSError("failed to lookup address information: Name or service not known"), Trouble.UNKNOWN_HOST, "lookup"),
        (NotImplementedError("erasure coding"), Trouble.UNSUPPORTED, "erasure coding"),
        (
            remote("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Name node is in safe mode."),
            Trouble.SAFE_MODE,
            "SafeModeException: Name node is in safe mode.",
        ),
        (
            remote("org.apache.hadoop.ipc.StandbyException", "Operation category READ is not supported in standby"),
            Trouble.STANDBY,
            "StandbyException: Operation category READ",
        ),
        (
            remote("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota of /jobs is"),
            Trouble.QUOTA,
            "DSQuotaExceededException: The DiskSpace quota of /jobs is",
        ),
        (
            remote("org.apache.hadoop.security.AccessControlException", "Permission denied: user=stranger"),
            Trouble.RIGHTS,
            "AccessControlException: Permission denied: user=stranger",
        ),
        (
            remote(
                "java.io.IOException",
                "File /jobs/a could only be written to 0 of the 1 nodes. There are 0 datanode(s) running",
            ),
            Trouble.NO_DATA_NODE,
            "IOException: File /jobs/a could only",
        ),
        (
            remote(
                "java.io.IOException",
                "File /jobs/a could only be written to 0 of the 1 nodes. There are 1 datanode(s) running",
            ),
            Trouble.FULL,
            "IOException: File /jobs/a could only",
        ),
        (remote("java.io.IOException", "something else"), Trouble.OTHER, "IOException: something else"),
        (
            remote("org.apache.hadoop.security.token.SecretManager$InvalidToken", "token is expired"),
            Trouble.LOGIN,
            "InvalidToken: token is expired",
        ),
        (RuntimeError('InvalidArgument("No NameNode hosts found")'), Trouble.NO_NAME_NODE, "No NameNode"),
        (RuntimeError('DataTransferError("checksum")'), Trouble.AWAY, "DataTransferError"),
        (RuntimeError("x" * 1000), Trouble.OTHER, "xxx"),
    ],
)
def test_an_exception_of_the_client_is_one_of_a_closed_set(error: Exception, trouble: Trouble, found: str) -> None:
    failure = failure_of(error)
    assert failure.trouble is trouble
    assert found in failure.found
    assert "\n" not in failure.found
    assert len(failure.found) < 400


@pytest.mark.parametrize("trouble", Trouble)
def test_every_trouble_becomes_an_error_with_a_next_step(trouble: Trouble) -> None:
    error = hdfs_error(HdfsFailure(trouble, "found"), "hdfs://host:1/jobs/a", "create a record")
    full = trouble in (Trouble.FULL, Trouble.QUOTA)
    assert error.catalogue_entry is (Code.STORAGE_FULL if full else Code.STORAGE_UNUSABLE)
    assert (error.found, error.where, error.next_step) == ("found", "hdfs://host:1/jobs/a", _NEXT_STEPS[trouble])


def test_only_what_time_may_cure_is_tried_again() -> None:
    assert not RETRIED & {Trouble.RIGHTS, Trouble.LOGIN, Trouble.QUOTA, Trouble.NO_NAME_NODE, Trouble.UNSUPPORTED}
