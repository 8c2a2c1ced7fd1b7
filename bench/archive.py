"""The archive of Spark's classes, which tidegate's users have: `tidegate run` makes it beside a job."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from tidegate.machine.class_archive import archive_to_make, command_to_make, environment_to_make


def make_class_archive(environment: Mapping[str, str]) -> None:
    """Make it where it is missing, and say so in one line."""
    archive = archive_to_make(environment)
    if archive is None:
        return
    print(f"bench: making the archive of Spark's classes: {archive}", file=sys.stderr, flush=True)
    made = subprocess.run(
        command_to_make(archive), env=environment_to_make(environment), capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise SystemExit(f"bench: no archive was made\n{made.stderr[-4000:]}")
