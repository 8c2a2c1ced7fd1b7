"""Finds the Java that runs the broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tidegate.core.errors import Code, TidegateError

JAVA_AT_LEAST = 17
"""What Kafka 4 asks of a broker's Java."""


def find_java() -> str:
    """The path of a `java` command new enough for Kafka: in JAVA_HOME if that is set, else the first in PATH."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    if java is None:
        raise _missing("no `java` in JAVA_HOME or on the PATH")
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', printed)
    if version is None or int(version[1]) < JAVA_AT_LEAST:
        raise _missing(f"{java}: {printed.splitlines()[0] if printed else 'it does not start'}")
    return java


def _missing(found: str) -> TidegateError:
    return TidegateError(
        Code.JAVA_MISSING,
        expected=f"Java {JAVA_AT_LEAST} or newer",
        found=found,
        where="JAVA_HOME, PATH",
    )
