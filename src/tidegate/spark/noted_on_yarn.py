"""Lets the commands of this user find a job by its application of YARN."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from tidegate.core.errors import TidegateError
from tidegate.operate.noted_folders import home_on, note_folder
from tidegate.spark.companions import Companion
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob

_LOG = logging.getLogger("tidegate")
_OF_YARN = "application_"


class NotedOnYarn(Companion):
    """Notes the folder of the jobs when a job begins in an application of YARN. The job does not need the note."""

    def __init__(self, session: SparkSession, jobs: Folder) -> None:
        """`jobs`: the folder of the jobs, on a storage that other machines reach."""
        self._session = session
        self._jobs = jobs

    def opening(self, handle: LiveJob) -> None:
        context = self._session.sparkContext
        if not context.applicationId.startswith(_OF_YARN):
            return
        java: Any = context._jsc  # pyright: ignore[reportPrivateUsage]
        try:
            home = home_on(str(java.hadoopConfiguration().get("fs.defaultFS")))
            if home is not None:
                note_folder(home, self._jobs)
        except TidegateError as error:
            _LOG.warning("commands find job %s by --dir %s only, and not by -yid: %s", handle.name, self._jobs, error)
