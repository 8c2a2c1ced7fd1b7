"""Finds the Java that Spark and a broker for tests will use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tidegate.core.errors import Code, TidegateError

JAVA_AT_LEAST = 17
"""Required by Spark 4 and by the brokers of Kafka 4."""


@dataclass(frozen=True, slots=True)
class JavaCommand:
    """The command of a Java that is new enough, and its version output."""

    command: str
    says: str


def find_java() -> JavaCommand:
    """The Java of JAVA_HOME if that is set, otherwise the first on the PATH. Raises JAVA_MISSING."""
    command = java_command()
    printed = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    says = printed.splitlines()[0] if printed else "it does not start"
    version = re.search(r'version "(\d+)', printed)
    if version is None or int(version[1]) < JAVA_AT_LEAST:
        raise _missing(f"{command}: {says}")
    return JavaCommand(command, says)


def require_java() -> None:
    """Raise JAVA_MISSING as `find_java` does. If the installation has its version in a file, no Java is started,
    because that would take as long as many commands."""
    command = java_command()
    version = _version_beside(Path(command))
    if version is None:
        find_java()
    elif version < JAVA_AT_LEAST:
        raise _missing(f"{command}: version {version}")


def java_command() -> str:
    """The `java` that will be started. Raises JAVA_MISSING."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    if command is None:
        raise _missing("no `java` in JAVA_HOME or on the PATH")
    return command


def _version_beside(command: Path) -> int | None:
    """Read from the file `release` of a JDK or JRE, two folders above its `java`. None if there is no such file."""
    try:
        text = (command.resolve().parent.parent / "release").read_text(errors="replace")
    except OSError:
        return None
    version = re.search(r'^JAVA_VERSION="(\d+)', text, re.MULTILINE)
    return None if version is None else int(version[1])


def _missing(found: str) -> TidegateError:
    return TidegateError(
        Code.JAVA_MISSING,
        expected=f"Java {JAVA_AT_LEAST} or newer",
        found=found,
        where="JAVA_HOME, PATH",
    )
