"""Every JVM that a test starts lives for seconds, so what counts is its start.

One tier of compilation and the simplest collector halve that; an archive of Spark's classes, as `tidegate warm-up`
makes it, halves the rest. `python -m tests.support.jvm` makes the archive, where there is none for this Java and this
Spark; `./dev test` calls it. It also downloads the jar of the HDFS server of tests, and Spark's connector for S3.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

from tests.house.repository import ROOT
from tidegate.core.errors import TidegateError
from tidegate.machine.class_archive import SUBMIT_OPTIONS, archive_file, options_to_use
from tidegate.machine.jars import Bundle, fetched
from tidegate.machine.s3a import S3A

HDFS_VERSION = "3.5.0"
"""The version of the Hadoop client in pyspark's jars, which are the rest of the server's class path."""

_MODULE = "hadoop-client-minicluster"
HDFS = Bundle(
    f"HDFS {HDFS_VERSION}",
    f"hdfs-{HDFS_VERSION}",
    (("org.apache.hadoop", _MODULE, HDFS_VERSION),),
    f"{_MODULE}-{HDFS_VERSION}.jar",
    with_dependencies=False,
)

YARN_VERSION = "1.82"
"""Of the encryption that the ResourceManager loads, as in Hadoop's own releases."""

YARN = Bundle(
    f"YARN's encryption {YARN_VERSION}",
    f"yarn-{YARN_VERSION}",
    tuple(("org.bouncycastle", f"{name}-jdk18on", YARN_VERSION) for name in ("bcprov", "bcpkix", "bcutil")),
    f"bcprov-jdk18on-{YARN_VERSION}.jar",
    with_dependencies=False,
)

LAUNCHER_OPTIONS = "SPARK_LAUNCHER_OPTS"
"""Options for the small JVM that only puts the command of the driver's together."""

_CACHE = ROOT / ".venv" / "cache"
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


def quick_jvms() -> None:
    """Let every JVM that this process and its children start from now on be one of a short life."""
    archive = archive_file({"XDG_CACHE_HOME": str(_CACHE)})
    mapped = f" {options_to_use(archive)}" if archive.exists() else ""
    os.environ.setdefault(SUBMIT_OPTIONS, _QUICK + mapped)
    os.environ.setdefault(LAUNCHER_OPTIONS, _QUICK)


def main() -> int:
    """Make the archive where it is missing; two that need it at once make one. Fetch what test servers need."""
    _fetch_servers()
    return _make_archive()


def _fetch_servers() -> None:
    """A server that cannot be had fails no other test: the fixture of its tests skips them, or fails where CI is
    set."""
    for bundle in (HDFS, YARN, S3A):
        try:
            fetched(bundle, lambda line: print(line, file=sys.stderr))
        except TidegateError as error:
            print(error, file=sys.stderr)


def _make_archive() -> int:
    _CACHE.mkdir(exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = {**os.environ, "XDG_CACHE_HOME": str(_CACHE), SUBMIT_OPTIONS: _QUICK}
        if archive_file(environment).exists():
            return 0
        print("making an archive of Spark's classes for the tests", file=sys.stderr)
        command = [sys.executable, "-m", "tidegate.cli.main", "warm-up"]
        return subprocess.run(command, env=environment, stdout=sys.stderr, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
