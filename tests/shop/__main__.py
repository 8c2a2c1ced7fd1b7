"""`./dev demo --shop`: orders into PostgreSQL, Delta, Redis and Kafka, killed on the way; every store is compared."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.shop.run import Options, ShopReport, run_shop
from tests.support.jvm import quick_jvms


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev demo --shop", description=__doc__)
    parser.add_argument("--crashes", type=int, default=3, help="how often the driver is killed (kill -9); default: 3")
    parser.add_argument("--seed", type=int, help="chooses epochs and places of the kills; default: random")
    parser.add_argument("--files", type=int, help="of 100 orders each; default: 26, or enough for the kills")
    parser.add_argument("--json", action="store_true", help="show the result as one JSON object")
    arguments = parser.parse_args()
    quick_jvms()
    seed = secrets.randbelow(10_000) if arguments.seed is None else arguments.seed
    files = arguments.files or max(26, 2 * arguments.crashes + 2)
    if files < 2 * arguments.crashes + 2:
        parser.error(f"--files: {arguments.crashes} kills need at least {2 * arguments.crashes + 2} files")
    with tempfile.TemporaryDirectory(prefix="tidegate-shop-") as folder:
        options = Options(folder=Path(folder), crashes=arguments.crashes, seed=seed, files=files)
        report = run_shop(options, lambda line: print(line, file=sys.stderr, flush=True))
    if arguments.json:
        print(json.dumps({"ok": report.ok, "seed": seed, **asdict(report)}))
    else:
        _show(report, seed)
    return 0 if report.ok else 1


def _show(report: ShopReport, seed: int) -> None:
    console = Console(highlight=False)
    verdict = "[bold green]exact" if report.ok else "[bold red]NOT exact"
    table = Table(title=f"{verdict}[/], {len(report.kills)} kills, seed {seed}", title_justify="left")
    table.add_column("store")
    for name in ("rows", "lost", "repeated", "wrong"):
        table.add_column(name, justify="right")
    for each in report.stores:
        table.add_row(each.store, *(str(number) for number in (each.rows, each.lost, each.repeated, each.wrong)))
    console.print(table)
    epochs = ", ".join(f"{number} epochs of {query}" for query, number in report.epochs.items())
    console.print(f"{epochs}, {len(report.left)} staging tables left, {report.seconds:.0f} s")
    for each in report.stores:
        if each.example:
            console.print(f"{each.store}: {each.example}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
