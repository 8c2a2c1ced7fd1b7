"""`tidegate savepoint export` and `import`: a savepoint as one file, or as one stream between two machines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Annotated

import typer

from tidegate import operate
from tidegate.cli.common import Json, print_json

_STREAM = "-"
_STANDARD_OUTPUT = Path("/dev/stdout")


def export(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The savepoint's folder, or its URI.")],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The archive to write, or its URI; `-` is the standard output.")
    ],
    json: Json = False,
) -> None:
    """Write a savepoint as one archive (tar). Every file is compared with the manifest during the copy.

    A file is complete or absent. An interrupted stream has no end mark, and `import` refuses it. The archive is not
    compressed: pipe it through `zstd` or `gzip`.

    Examples:

    - `tidegate savepoint export /backup/savepoints/savepoint-0f1e2d3c-nightly nightly.tar`

    - `tidegate savepoint export savepoint-0f1e2d3c-nightly - | gzip > nightly.tar.gz`

    - `tidegate savepoint export hdfs:///savepoints/savepoint-0f1e2d3c-nightly s3://bucket/nightly.tar`
    """
    if file == _STREAM:
        if json or sys.stdout.isatty():
            raise typer.BadParameter("the archive goes to a pipe, without --json", param_hint="FILE")
        with _progress("exported") as passed:
            operate.stream_savepoint(path, sys.stdout.buffer, _STANDARD_OUTPUT, passed)
        return
    with _progress("exported") as passed:
        archive = operate.export_savepoint(path, file, passed)
    if json:
        print_json({"path": str(operate.Folder.of(path)), "file": archive.path, "bytes": archive.bytes})
    else:
        typer.echo(f"{archive.path}: {archive.bytes} bytes")


def import_(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The archive to read, or its URI; `-` is the standard input.")
    ],
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="The savepoint is created in this folder, by its path or URI.")
    ],
    json: Json = False,
) -> None:
    """Unpack a savepoint from an archive of `export` into a folder. Every file is compared with the manifest.

    The savepoint is complete or absent. On HDFS and S3 its manifest is put last: files of an import that was killed are
    no savepoint, and the same import resumes. Archives compressed with gzip, bzip2 or xz are read too.

    Examples:

    - `tidegate savepoint import nightly.tar /backup/savepoints`

    - `gzip -dc nightly.tar.gz | tidegate savepoint import - /backup/savepoints --json`

    - `tidegate savepoint import s3://bucket/nightly.tar hdfs:///savepoints`
    """
    with _opened(file) as source, _progress("imported") as passed:
        called = "the standard input" if file == _STREAM else str(operate.Folder.of(file))
        found = operate.import_savepoint(source, folder, called, passed)
    if json:
        print_json({"path": found.path, "files": found.files, "bytes": found.bytes})
    else:
        typer.echo(f"{found.path}: {found.files} files, {found.bytes} bytes")


def _opened(file: str) -> AbstractContextManager[IO[bytes]]:
    if file == _STREAM:
        return nullcontext(sys.stdin.buffer)
    try:
        return operate.open_archive(file)
    except OSError as error:
        raise typer.BadParameter(f"{error.strerror}: {file}", param_hint="FILE") from None


@contextmanager
def _progress(what: str) -> Generator[Callable[[int, int], None], None, None]:
    """Shows progress in a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda more, total: bar.update(task, advance=more, total=total)
