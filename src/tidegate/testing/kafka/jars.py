"""The jars of a Kafka broker, fetched once for each version into the user's cache folder."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tidegate.core.errors import Code, TidegateError
from tidegate.testing.kafka.java import find_java

DEFAULT_VERSION = "4.1.1"

_FETCH_SECONDS = 900.0
_SCALA = "2.13"
_SLF4J = "2.0.17"
_SHOWN_LINES = 12


def kafka_jars(version: str, tell: Callable[[str], None]) -> Path:
    """The folder with the jars of that version. A fetch is announced with `tell`: it takes a while.

    Fetched aside and renamed when complete, so two processes may do it at once.
    """
    require_version(version)
    folder = _cache_folder() / f"kafka-{version}"
    if not folder.is_dir():
        tell(f"fetching the jars of Kafka {version}, once")
        _fetch(version, folder)
    return folder


def require_version(version: str) -> None:
    """Refuse what is no version of a release."""
    if re.fullmatch(r"\d+\.\d+\.\d+", version) is None:
        raise TidegateError(
            Code.SETTING_VALUE,
            expected=f"a released version of Kafka, like {DEFAULT_VERSION}",
            found=repr(version),
            where="version of the broker",
            next_step="name a version of three numbers",
        )


def _cache_folder() -> Path:
    """`~/.cache/tidegate`, or below XDG_CACHE_HOME where that is an absolute path."""
    wanted = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (wanted if wanted.is_absolute() else Path.home() / ".cache") / "tidegate"


def _fetch(version: str, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".kafka-{version}-", dir=folder.parent) as name:
        aside = Path(name)
        jars = aside / "jars"
        _run_resolver(_resolver(version, aside, jars), version, aside)
        if not (jars / f"kafka_{_SCALA}-{version}.jar").is_file():
            raise _unavailable(version, "the resolver ended well, but the broker's jar is not there", aside)
        try:
            jars.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first
                raise


def _run_resolver(command: list[str], version: str, aside: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=aside, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_FETCH_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise _unavailable(version, f"{command[0]}: not done after {_FETCH_SECONDS:.0f} s", aside) from None
    if done.returncode != 0:
        lines = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
        raise _unavailable(version, "\n".join([f"{command[0]} failed:", *lines[-_SHOWN_LINES:]]), aside)


def _resolver(version: str, aside: Path, jars: Path) -> list[str]:
    """The command that puts the jars into a folder: Maven, which knows the user's mirrors, or else Spark's Ivy."""
    maven = shutil.which("mvn")
    if maven is not None:
        return _maven(maven, version, aside, jars)
    ivy = _ivy_jar()
    if ivy is not None:
        return _ivy(ivy, version, aside, jars)
    raise _unavailable(version, "neither `mvn` on the PATH nor Ivy in pyspark's folder", aside)


def _maven(maven: str, version: str, aside: Path, jars: Path) -> list[str]:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{revision}</version></dependency>"
        for group, name, revision in _modules(version)
    )
    project = aside / "pom.xml"
    project.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>tidegate</groupId><artifactId>broker</artifactId>"
        f"<version>1</version><dependencies>{dependencies}</dependencies></project>",
        encoding="utf-8",
    )
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    return [maven, "--batch-mode", "--quiet", "-Dstyle.color=never", "--file", str(project), *goal]


def _ivy(ivy: Path, version: str, aside: Path, jars: Path) -> list[str]:
    dependencies = "".join(
        f'<dependency org="{group}" name="{name}" rev="{revision}" conf="default->default"/>'
        for group, name, revision in _modules(version)
    )
    module = aside / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="tidegate" module="broker"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>",
        encoding="utf-8",
    )
    pattern = f"{jars}/[artifact]-[revision](-[classifier]).[ext]"
    options = ["-ivy", str(module), "-cache", str(aside / "ivy"), "-types", "jar", "bundle", "-retrieve", pattern]
    return [find_java(), "-cp", str(ivy), "org.apache.ivy.Main", *options]


def _modules(version: str) -> list[tuple[str, str, str]]:
    """The broker, and what writes its log: a binding of slf4j 2, which also serves programs made for slf4j 1."""
    return [
        ("org.apache.kafka", f"kafka_{_SCALA}", version),
        ("org.slf4j", "slf4j-api", _SLF4J),
        ("org.slf4j", "slf4j-simple", _SLF4J),
    ]


def _ivy_jar() -> Path | None:
    """The Ivy that pyspark ships, found without loading pyspark."""
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec and spec.submodule_search_locations) or []:
        for jar in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return jar
    return None


def _unavailable(version: str, found: str, where: Path) -> TidegateError:
    return TidegateError(
        Code.JARS_UNAVAILABLE,
        expected=f"the jars of Kafka {version} from the Maven repository",
        found=found,
        where=str(where.parent),
        next_step="check version and network; where a mirror is needed, install Maven and name it in Maven's settings",
    )
