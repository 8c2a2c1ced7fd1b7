"""The jars that a JVM needs for the storage of a job's folder. Spark takes them at the start of its JVM only."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tidegate.machine.s3a import s3a_jars
from tidegate.machine.spark_home import spark_home
from tidegate.storages.schemes import Folder, Scheme
from tidegate.submit.submission import SUBMIT_ARGUMENTS

_LOG = logging.getLogger("tidegate")


def arguments_for(job_folder: Folder, environment: Mapping[str, str]) -> str | None:
    """SUBMIT_ARGUMENTS with the jars for this folder, downloaded if missing; None: the arguments stay as they are. The
    jars that the user names, here or in spark-defaults.conf, stay: Spark itself takes only the option.

    Raises JARS_UNAVAILABLE if the download fails.
    """
    find = _JARS.get(job_folder.scheme)
    given = environment.get(SUBMIT_ARGUMENTS, "pyspark-shell")
    jars = () if find is None else find({"spark.jars": given})
    if not jars:
        return None
    named, others = _without_jars(shlex.split(given))
    all_jars = [*map(str, jars), *filter(None, [named or _jars_of_defaults(environment)])]
    return shlex.join(["--jars", ",".join(all_jars), *others])


def _without_jars(words: Sequence[str]) -> tuple[str, list[str]]:
    """The value of `spark.jars` in options of `spark-submit`, and the other words. `--jars` counts more than
    `--conf`.
    """
    by_option, by_setting, others = "", "", list[str]()
    rest = iter(words)
    for word in rest:
        option, has_value, value = word.partition("=")
        if option not in ("--jars", "--conf", "-c"):
            others.append(word)
            continue
        value = value if has_value else next(rest, "")
        if option == "--jars":
            by_option = value
        elif value.startswith(f"{_KEY}="):
            by_setting = value.removeprefix(f"{_KEY}=")
        else:
            others += ["--conf", value]
    return by_option or by_setting, others


def _jars_of_defaults(environment: Mapping[str, str]) -> str:
    """The value of `spark.jars` in spark-defaults.conf; empty without one."""
    home = spark_home(environment)
    folder = environment.get("SPARK_CONF_DIR") or (None if home is None else home / "conf")
    try:
        lines = [] if folder is None else Path(folder, "spark-defaults.conf").read_text("utf-8").splitlines()
    except FileNotFoundError:
        return ""
    found = [line[1].strip() for each in lines if (line := _DEFAULT.match(each)) is not None]
    return found[-1] if found else ""


def _of_s3(given: Mapping[str, str]) -> Sequence[Path]:
    return s3a_jars(given, lambda text: _LOG.warning("%s", text))


_JARS: Mapping[Scheme, Callable[[Mapping[str, str]], Sequence[Path]]] = {Scheme.S3: _of_s3}
_KEY = "spark.jars"
_DEFAULT = re.compile(r"\s*spark\.jars(?:\s*[=:]\s*|\s+)(.*)")
