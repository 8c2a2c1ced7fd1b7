"""Which Java Spark will run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tidegate.core.errors import Code, TidegateError

JAVA_AT_LEAST = 17


@dataclass(frozen=True, slots=True)
class Java:
    """A command that starts a Java new enough for Spark, and what it says of itself."""

    command: str
    says: str


def find_java() -> Java:
    """That of JAVA_HOME where it is set, else the first on the PATH. Raises JAVA_MISSING."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    if command is None:
        raise _missing("no `java` in JAVA_HOME or on the PATH")
    printed = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    says = printed.splitlines()[0] if printed else "it does not start"
    version = re.search(r'version "(\d+)', printed)
    if version is None or int(version[1]) < JAVA_AT_LEAST:
        raise _missing(f"{command}: {says}")
    return Java(command, says)


def _missing(found: str) -> TidegateError:
    return TidegateError(
        Code.JAVA_MISSING,
        expected=f"Java {JAVA_AT_LEAST} or newer",
        found=found,
        where="JAVA_HOME, PATH",
        next_step="install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME",
    )
