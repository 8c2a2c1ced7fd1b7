"""The contract suite as two tables: `python -m tests.contract.table [--without-spark]`.

Sinks x tests, and planted flaws x the tests that caught them; both from the lists that the tests run. Fails when a
sink fails a test, or a flaw is caught by another test than the one it names.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from _pytest.outcomes import Skipped
from rich.console import Console
from rich.table import Table

from tests.contract import flawed
from tests.contract.test_flawed_sinks import FLAWS, TESTS, failing
from tests.contract.test_shipped_sinks import SHIPPED
from tidegate.testing.contract import SinkContract

PASSED, SKIPPED, FAILED = "pass", "-", "FAIL"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-spark", action="store_true", help="leave out the sink that needs a Spark session")
    sinks = [*SHIPPED, *([] if parser.parse_args(arguments).without_spark else [with_spark()])]
    console = Console(width=200)
    results = {sink: [result(sink, test) for test in TESTS] for sink in sinks}
    console.print(table_of_sinks(results))
    console.print(f"`{SKIPPED}`: the demand does not apply to this target (see the class attributes of its suite)")
    caught = {flaw.__name__: caught_by(flaw) for flaw in FLAWS}
    console.print(table_of_flaws(caught))
    wrong = [flaw.__name__ for flaw in FLAWS if caught[flaw.__name__] != [flaw.names]]
    return 1 if wrong or any(FAILED in column for column in results.values()) else 0


def with_spark() -> type[SinkContract]:
    """The suite of the function sink, in a session of its own."""
    from pyspark.sql import SparkSession

    from tests.integration.test_function_sink import TestFunction

    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    TestFunction.spark = session
    return TestFunction


def result(sink: type[SinkContract], test: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        suite = sink()
        suite.set_up(Path(folder))
        try:
            getattr(suite, test)()
        except Skipped:
            return SKIPPED
        except Exception:  # noqa: BLE001  told in the table
            return FAILED
        return PASSED


def caught_by(flaw: type[flawed.FlawedFiles] | type[flawed.FlawedTable]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        return failing(flawed.contract_of(flaw), Path(folder))


def table_of_sinks(results: dict[type[SinkContract], list[str]]) -> Table:
    table = Table(title="sinks x tests")
    table.add_column("test", no_wrap=True)
    for sink in results:
        table.add_column(sink.__name__.removeprefix("Test"), justify="center")
    for number, test in enumerate(TESTS):
        table.add_row(_words(test), *(column[number] for column in results.values()))
    return table


def table_of_flaws(caught: dict[str, list[str]]) -> Table:
    table = Table("flaw", "caught by", title="planted flaws x the tests that caught them")
    for flaw, tests in caught.items():
        table.add_row(flaw, ", ".join(_words(test) for test in tests) or "nothing")
    return table


def _words(test: str) -> str:
    return test.removeprefix("test_").replace("_", " ")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
