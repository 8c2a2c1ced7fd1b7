"""`tidegate warm-up`: makes later starts faster, once for each installation."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import typer

from tidegate.cli.common import Json, print_json
from tidegate.cli.exits import Exit
from tidegate.machine.class_archive import archive_file, command_to_make, environment_to_make


def warm_up(json: Json = False) -> None:
    """Make an archive of Spark's classes. Later starts of jobs are faster, because they map it into memory.

    It takes half a minute or more: a small job runs in a temporary folder. The archive (about 180 MB) is in
    `$XDG_CACHE_HOME/tidegate`, else `~/.cache/tidegate`. It is for this version of Java and of Spark; other versions
    ignore it. In a container's image, use `RUN tidegate warm-up`. Elsewhere the command is not needed: `tidegate run`
    makes the archive when a job has run for a minute, unless `warm_up = off` is set. Jobs also run without the archive.

    Example: `tidegate warm-up`
    """
    archive, begun = archive_file(os.environ), time.monotonic()
    command, environment = command_to_make(archive), environment_to_make(os.environ)
    done = subprocess.run(command, env=environment, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        typer.echo("no archive was made; jobs start without one", err=True)
        raise typer.Exit(Exit.FAILED)
    seconds = time.monotonic() - begun
    if json:
        print_json({"archive": str(archive), "bytes": archive.stat().st_size, "seconds": round(seconds, 1)})
    else:
        typer.echo(f"{archive}: {archive.stat().st_size / 1e6:.0f} MB, in {seconds:.0f} s")
