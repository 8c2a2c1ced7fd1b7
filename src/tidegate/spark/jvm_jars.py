"""The jars that a JVM needs for the storage of a job's folder. Spark takes them at the start of its JVM only."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tidegate.machine.s3a import s3a_jars
from tidegate.storages.schemes import Folder, Scheme
from tidegate.submit.submission import SUBMIT_ARGUMENTS

_LOG = logging.getLogger("tidegate")


def arguments_for(job_folder: Folder, environment: Mapping[str, str]) -> str | None:
    """SUBMIT_ARGUMENTS with the jars for this folder, downloaded if missing; None: the arguments stay as they are.

    Raises JARS_UNAVAILABLE if the download fails.
    """
    find = _JARS.get(job_folder.scheme)
    given = environment.get(SUBMIT_ARGUMENTS, "pyspark-shell")
    jars = () if find is None else find({"spark.jars": given})
    return f"--jars {','.join(map(str, jars))} {given}" if jars else None


def _of_s3(given: Mapping[str, str]) -> Sequence[Path]:
    return s3a_jars(given, lambda text: _LOG.warning("%s", text))


_JARS: Mapping[Scheme, Callable[[Mapping[str, str]], Sequence[Path]]] = {Scheme.S3: _of_s3}
