"""The classes of Spark's JVM in an archive that each new JVM maps: a start takes 2 s of processor time, not 5.

Java's own class data sharing (`-XX:ArchiveClassesAtExit`, JDK 13 and newer). The JVM checks the archive against its
version and class path and goes without it when they differ, so a stale one costs time and nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pyspark


@cache
def archive_file() -> Path:
    """Where the archive of this environment is, or would be."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    version = "".join(each for each in java.splitlines()[0] if each.isalnum() or each == ".")
    return Path(sys.prefix) / f"campaign-spark-{pyspark.__version__}-{version}.jsa"


def using_options() -> str:
    """The JVM's option to use the archive, if it has been made."""
    archive = archive_file()
    return f"-XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off" if archive.exists() else ""


def making_options(draft: Path) -> str:
    """The JVM's option to write an archive at its end."""
    return f"-XX:ArchiveClassesAtExit={draft} -Xlog:cds=off -Xlog:cds+dynamic=off"


def keep(draft: Path) -> None:
    """Put a whole archive where the next JVMs find it."""
    os.replace(draft, archive_file())
