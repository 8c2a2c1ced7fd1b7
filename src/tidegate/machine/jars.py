"""Jars from the Maven repository, downloaded once for each version into the user's cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate.core.errors import Code, TidegateError
from tidegate.machine.java import find_java
from tidegate.machine.spark_home import pyspark_folder

_FETCH_SECONDS = 900.0
_SHOWN_LINES = 12
_EVERYTHING = ("*", "*")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A group of jars that are downloaded together: the Maven module, and the jar whose presence shows that they are
    complete. `with_dependencies`: False for exactly the jars of the modules. `without`: dependencies to leave out,
    pairs (group, name), where `*` is every name: Spark has them, or nothing needs them.
    """

    title: str
    folder: str
    modules: tuple[tuple[str, str, str], ...]
    proof: str
    with_dependencies: bool = True
    without: tuple[tuple[str, str], ...] = ()

    def left_out_of(self, group: str, name: str) -> list[tuple[str, str]]:
        """The dependencies of this module to exclude, as pairs (group, name). A bundle without dependencies excludes
        all. Any other bundle excludes the modules that it names itself, and those in `without`.
        """
        if not self.with_dependencies:
            return [_EVERYTHING]
        return [*(module[:2] for module in self.modules if module[:2] != (group, name)), *self.without]


def fetched(bundle: Bundle, tell: Callable[[str], None]) -> Path:
    """The folder with the jars of a bundle, downloaded if missing. Raises JARS_UNAVAILABLE if the download fails."""
    folder = cache_folder() / bundle.folder
    if not folder.is_dir():
        tell(f"fetching the jars of {bundle.title}, once")
        _fetch(bundle, folder)
    return folder


def cache_folder() -> Path:
    """The cache folder: `~/.cache/tidegate`, or `tidegate` in XDG_CACHE_HOME if that is an absolute path."""
    wanted = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (wanted if wanted.is_absolute() else Path.home() / ".cache") / "tidegate"


def _fetch(bundle: Bundle, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{bundle.folder}-", dir=folder.parent) as name:
        aside = Path(name)
        jars = aside / "jars"
        _run_resolver(_resolver(bundle, aside, jars), bundle, aside)
        if not (jars / bundle.proof).is_file():
            raise _unavailable(bundle, f"the resolver ended well, but {bundle.proof} is not there", aside)
        try:
            jars.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was first
                raise


def _run_resolver(command: list[str], bundle: Bundle, aside: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=aside, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_FETCH_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise _unavailable(bundle, f"{command[0]}: not done after {_FETCH_SECONDS:.0f} s", aside) from None
    if done.returncode != 0:
        lines = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
        raise _unavailable(bundle, "\n".join([f"{command[0]} failed:", *lines[-_SHOWN_LINES:]]), aside)


def _resolver(bundle: Bundle, aside: Path, jars: Path) -> list[str]:
    """The command that downloads the jars into a folder: Maven, which uses the user's mirrors; without Maven, Spark's
    Ivy.
    """
    maven = shutil.which("mvn")
    if maven is not None:
        return _maven(maven, bundle, aside, jars)
    ivy = _ivy_jar()
    if ivy is not None:
        return _ivy(ivy, bundle, aside, jars)
    raise _unavailable(bundle, "neither `mvn` on the PATH nor Ivy in pyspark's folder", aside)


def _maven(maven: str, bundle: Bundle, aside: Path, jars: Path) -> list[str]:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{revision}</version>"
        f"<exclusions>{_left_out(_EXCLUSION, bundle, group, name)}</exclusions></dependency>"
        for group, name, revision in bundle.modules
    )
    project = aside / "pom.xml"
    project.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>tidegate</groupId><artifactId>jars</artifactId>"
        f"<version>1</version><dependencies>{dependencies}</dependencies></project>",
        encoding="utf-8",
    )
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    return [maven, "--batch-mode", "--quiet", "-Dstyle.color=never", "--file", str(project), *goal]


def _ivy(ivy: Path, bundle: Bundle, aside: Path, jars: Path) -> list[str]:
    dependencies = "".join(
        f'<dependency org="{group}" name="{name}" rev="{revision}" conf="default->default">'
        f"{_left_out(_EXCLUDE, bundle, group, name)}</dependency>"
        for group, name, revision in bundle.modules
    )
    module = aside / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="tidegate" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>",
        encoding="utf-8",
    )
    pattern = f"{jars}/[artifact]-[revision](-[classifier]).[ext]"
    options = ["-ivy", str(module), "-cache", str(aside / "ivy"), "-types", "jar", "bundle", "-retrieve", pattern]
    return [find_java().command, "-cp", str(ivy), "org.apache.ivy.Main", *options]


_EXCLUSION = "<exclusion><groupId>{0}</groupId><artifactId>{1}</artifactId></exclusion>"
_EXCLUDE = '<exclude org="{0}" module="{1}"/>'


def _left_out(pattern: str, bundle: Bundle, group: str, name: str) -> str:
    return "".join(pattern.format(*other) for other in bundle.left_out_of(group, name))


def spark_jars() -> Path | None:
    """The folder of jars of pyspark, found without importing it; None if pyspark is not installed."""
    folder = pyspark_folder()
    return None if folder is None else folder / "jars"


def _ivy_jar() -> Path | None:
    """The Ivy jar inside pyspark; None if there is none."""
    folder = spark_jars()
    return None if folder is None else next(iter(sorted(folder.glob("ivy-*.jar"))), None)


def _unavailable(bundle: Bundle, found: str, where: Path) -> TidegateError:
    return TidegateError(
        Code.JARS_UNAVAILABLE,
        expected=f"the jars of {bundle.title} from the Maven repository",
        found=found,
        where=str(where.parent),
    )
