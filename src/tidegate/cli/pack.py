"""`tidegate pack`: one archive with tidegate and its packages, for executors that have none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.common import Json, print_json
from tidegate.cli.exits import Exit
from tidegate.core.errors import TidegateError
from tidegate.submit.packing import Packed
from tidegate.submit.packing import pack as write_archive

ENDINGS = (".tar.gz", ".tgz")
_MEGABYTE = 1_000_000


def pack(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The archive to write: FILE.tar.gz.")] = Path(
        "environment.tar.gz"
    ),
    packages: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="PACKAGE", help="A package of the program, with what it requires. Repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Write one archive with tidegate and its packages, for executors whose Python has none of them.

    It has the extras that are installed here, and neither pyspark nor Python itself: each machine of the cluster needs
    a Python of the same version on its PATH, or the variable TIDEGATE_PYTHON that names one.

    Examples:

    - `tidegate pack`

    - `tidegate pack environment.tar.gz --with requests`
    """
    if not file.name.endswith(ENDINGS):
        raise typer.BadParameter(f"expected a name that ends in {' or '.join(ENDINGS)}", param_hint="FILE")
    try:
        packed = write_archive(file, packages or [])
    except TidegateError as error:
        typer.echo(error, err=True)
        raise typer.Exit(Exit.USAGE) from None
    if json:
        print_json({"file": str(file), "size": packed.size, "python": packed.python, "packages": packed.packages})
    else:
        _show(packed)


def _show(packed: Packed) -> None:
    size = f"{packed.size / _MEGABYTE:.0f} MB"
    typer.echo(f"{packed.file}: {len(packed.packages)} packages, {size}, for Python {packed.python}")
    typer.echo(
        f"  next: tidegate run --master URL --archives {packed.file}#environment"
        " --conf spark.pyspark.python=./environment/bin/python APP.py"
    )
