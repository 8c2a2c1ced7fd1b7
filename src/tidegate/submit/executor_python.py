"""What the Python of the executors must have, compared with the driver's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.extras import Extra

NEEDED: Mapping[str, str] = {
    "tidegate": "tidegate",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
}
"""The modules that every task of a job imports, and their packages."""

SAME_VERSION: Sequence[str] = ("pyspark", "tidegate")
"""Tasks unpickle objects of these packages."""


class PythonThere(msgspec.Struct, frozen=True, kw_only=True):
    """The Python of one process: the driver's, or that of an executor's workers."""

    host: str
    python: str
    executable: str
    versions: dict[str, str]
    """Of the modules that were imported."""
    missing: dict[str, str] = {}
    """The modules that could not be imported, and why."""


def modules_of(extras: Sequence[Extra]) -> dict[str, str]:
    """The modules that executors need, and the package that brings each."""
    return {**NEEDED, **{module: package for extra in extras for package, module in extra.modules.items()}}


def differences(driver: PythonThere, executor: PythonThere, packages: Mapping[str, str]) -> Iterator[str]:
    """What prevents the tasks of a job from running there."""
    if _minor(driver.python) != _minor(executor.python):
        yield f"Python {executor.python}, and {driver.python} at the driver"
    for module, why in executor.missing.items():
        yield f"no package {packages.get(module, module)} ({why})"
    for module in SAME_VERSION:
        here, there = driver.versions.get(module), executor.versions.get(module)
        if here and there and here != there:
            yield f"{module} {there}, and {here} at the driver"


def unfit(found: str, where: str) -> TidegateError:
    """The error for executors whose Python cannot run the tasks of a job."""
    return TidegateError(
        Code.EXECUTOR_PYTHON,
        expected="executors with the driver's versions of Python, pyspark and tidegate, and all packages of tasks",
        found=found,
        where=where,
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
