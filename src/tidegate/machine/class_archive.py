"""An archive of Spark's classes. A new JVM maps it into memory and does not read, check and link each class.

It uses Java's class data sharing (JEP 350, JDK 13 and newer). The JVM compares an archive with its own version and its
class path, and ignores one that does not match. So an outdated archive only costs time. `tidegate warm-up` creates the
archive, and `tidegate run` does it beside a job; every session that tidegate opens uses it if it exists.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from tidegate.machine.java import java_command
from tidegate.machine.own_python import module_command
from tidegate.machine.spark_home import spark_home


def archive_file(environment: Mapping[str, str]) -> Path:
    """The path of the archive for this Java and this Spark. Raises JAVA_MISSING."""
    cache = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "tidegate" / f"spark-classes-{_fingerprint(environment)}.jsa"


def options_to_use(archive: Path) -> str:
    """JVM options that load the class archive, as text for `SPARK_SUBMIT_OPTS`."""
    return f'"-XX:SharedArchiveFile={archive}" {_SILENT}'


def options_to_make(draft: Path) -> str:
    """Options of a JVM that writes an archive when it ends."""
    return f'"-XX:ArchiveClassesAtExit={draft}" {_SILENT}'


def archive_to_use(environment: Mapping[str, str]) -> Path | None:
    """The path of the archive; None if no archive exists, or if the user's JVM options already name one."""
    archive = _own_archive(environment)
    return archive if archive is not None and archive.exists() else None


def archive_to_make(environment: Mapping[str, str]) -> Path | None:
    """The path of the missing archive; None if it exists, or if the user's JVM options already name one."""
    archive = _own_archive(environment)
    return None if archive is None or archive.exists() else archive


def command_to_make(archive: Path, niceness: int = 0) -> list[str]:
    """The command that makes the archive. `niceness`: by how much its priority is lower (0 to 19)."""
    return module_command("tidegate.spark.warm_up", str(archive), str(niceness))


def environment_to_make(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of that command: without tidegate's variables, which are for the job of the user."""
    return {name: value for name, value in environment.items() if not name.startswith("TIDEGATE_")}


def _own_archive(environment: Mapping[str, str]) -> Path | None:
    if any(word in environment.get(name, "") for name in _OPTIONS_IN for word in _OPTIONS):
        return None
    try:
        return archive_file(environment)
    except OSError:  # a Spark without jars: the start of Spark reports it
        return None


SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
"""Options for the driver's JVM. They come before those of `spark.driver.extraJavaOptions`, which take precedence."""

_SILENT = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
_OPTIONS_IN = (SUBMIT_OPTIONS, "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
_OPTIONS = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")


def _fingerprint(environment: Mapping[str, str]) -> str:
    """A digest for the name of the archive file: another Java or another jar gives another name.

    Made from the paths of `java` and of Spark's jars, and from the size and modification time of each of these files.
    When it loads an archive, the JVM compares its version and its jars with those in the archive.
    """
    java = Path(java_command()).resolve()
    found = [str(java), *_line(java.stat()), str(_jars(environment))]
    for jar in sorted(os.scandir(_jars(environment)), key=lambda each: each.name):
        found += [jar.name, *_line(jar.stat())]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:16]


def _jars(environment: Mapping[str, str]) -> Path:
    """The folder of Spark's jars, found without loading Spark."""
    return (spark_home(environment) or Path()) / "jars"


def _line(status: os.stat_result) -> tuple[str, str]:
    return str(status.st_size), str(int(status.st_mtime))
