"""Parts of the documents that the code writes: `python -m tests.house.generated --write | --check`.

In a document a part stands between a line `<!-- generated: NAME -->` and a line `<!-- /generated -->`. A file of
`FILES` is written as a whole.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from functools import partial

from tests.house import command_reference, decisions, effects, graph_levels
from tests.house.repository import ROOT, project_files, relative


def states() -> str:
    from tidegate.core.states import markdown_table

    return markdown_table()


def run_states() -> str:
    from tidegate.spark.run_state import markdown_table

    return markdown_table()


def errors() -> str:
    from tidegate.core.errors import Code
    from tidegate.core.next_steps import NEXT_STEPS

    def told(code: Code) -> str:
        step = NEXT_STEPS.get(code.label)
        return code.remedy.value if step is None else f"{code.remedy.value}. Next step: {step}"

    rows = [f"| `{code.label}` | {code.meaning} | {told(code)} |" for code in Code]
    return "\n".join(["| code | what it means | what to do |", "|---|---|---|", *rows])


def flink_answers() -> str:
    from tidegate.settings.flink import markdown_table

    return markdown_table()


def guarantees() -> str:
    from tidegate.core.guarantees import markdown_tables

    return markdown_tables()


def sinks() -> str:
    import tidegate
    from tidegate.sinks.promises import Promising, markdown_tables

    public = (getattr(tidegate, name) for name in tidegate.__all__ if name.endswith("Sink"))
    return markdown_tables(
        [
            Promising(name=each.__name__, shows=each.shows, levels=each.levels, promises=vars(each)["promises"])
            for each in public
            if each is not tidegate.TwoPhaseSink
        ]
    )


def extras() -> str:
    from tidegate.extras import ALL, Extra

    rows = [f"| {each.label} | `{each.command}` | {', '.join(each.modules)} | {each.needed_by} |" for each in Extra]
    rows.append(f"| {ALL} | `pip install 'tidegate[{ALL}]'` | those of every extra | |")
    return "\n".join(["| extra | installed by | packages | needed by |", "|---|---|---|---|", *rows])


def happenings() -> str:
    import dataclasses
    import inspect

    from tidegate.core import happenings as module
    from tidegate.core.effects import Happening

    rows: list[str] = []
    for name, kind in vars(module).items():
        if inspect.isclass(kind) and issubclass(kind, Happening) and dataclasses.is_dataclass(kind):
            fields = ", ".join(f"`{each.name}`" for each in dataclasses.fields(kind) if each.repr)
            meaning = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
            rows.append(f"| `{name}` | {fields} | {meaning} |")
    return "\n".join(["| type | fields | what happened |", "|---|---|---|", *rows])


def settings() -> str:
    from tidegate.settings.reference import settings_table

    return settings_table()


def settings_rules() -> str:
    from tidegate.settings.reference import rules_table

    return rules_table()


def fingerprint_parts() -> str:
    from tidegate.core.fingerprints import markdown_table

    return markdown_table()


def job_states() -> str:
    from tidegate.operate.status import State

    return "\n".join(["| state | meaning |", "|---|---|", *(f"| {each.label} | {each.meaning} |" for each in State)])


def job_ends() -> str:
    from tidegate.operate.job_end import markdown_tables

    return markdown_tables()


def owned_options(end: str) -> str:
    from tidegate.kafka.options import OWNED_BY_SINK, OWNED_BY_SOURCE, owned_table

    return owned_table({"source": OWNED_BY_SOURCE, "sink": OWNED_BY_SINK}[end])


def values() -> str:
    from tests.contract.values_matrix import markdown_table

    return markdown_table()


def benchmarks(suite: str) -> str:
    from bench.report import markdown_table

    return markdown_table(suite)


def benchmarks_by_alignment() -> str:
    from bench.report import alignments_table

    return alignments_table("barriers")


def benchmarks_chart() -> str:
    from bench.chart import svg

    return svg()


def who_may() -> str:
    from tidegate.web.guard import GUARD

    return GUARD.markdown("asks for")


def openapi() -> str:
    from tidegate.web.openapi import as_json
    from tidegate.web.routes import ROUTES

    return as_json(ROUTES).decode()


def rest_routes(flink: bool) -> str:
    from tidegate.web.openapi import routes_table
    from tidegate.web.routes import ROUTES

    return routes_table([route for route in ROUTES if route.flink is flink])


def rest_states() -> str:
    from tidegate.web.flink.states import states_table

    return states_table()


GENERATORS: dict[str, Callable[[], str]] = {
    "benchmarks": partial(benchmarks, "core"),
    "benchmarks-kafka": partial(benchmarks, "kafka"),
    "benchmarks-flink": partial(benchmarks, "flink"),
    "benchmarks-other": partial(benchmarks, "other"),
    "benchmarks-long": partial(benchmarks, "long"),
    "benchmarks-start": partial(benchmarks, "start"),
    "benchmarks-job": partial(benchmarks, "job"),
    "benchmarks-savepoint": partial(benchmarks, "savepoint"),
    "benchmarks-scale": partial(benchmarks, "scale"),
    "benchmarks-storage": partial(benchmarks, "storage"),
    "benchmarks-barriers": partial(benchmarks, "barriers"),
    "benchmarks-sinks": partial(benchmarks, "sinks"),
    "benchmarks-page": partial(benchmarks, "page"),
    "benchmarks-alignments": benchmarks_by_alignment,
    "commands": command_reference.reference,
    "errors": errors,
    "extras": extras,
    "guarantees": guarantees,
    "graph-alignments": graph_levels.alignments_table,
    "graph-deliveries": graph_levels.deliveries_table,
    "flink-answers": flink_answers,
    "happenings": happenings,
    "fingerprint-parts": fingerprint_parts,
    "owned-source-options": partial(owned_options, "source"),
    "owned-sink-options": partial(owned_options, "sink"),
    "settings": settings,
    "sinks": sinks,
    "settings-rules": settings_rules,
    "settings-effects": effects.table,
    "job-ends": job_ends,
    "job-states": job_states,
    "rest-routes-flink": partial(rest_routes, True),
    "rest-routes-own": partial(rest_routes, False),
    "rest-states": rest_states,
    "run-states": run_states,
    "states": states,
    "values": values,
    "who-may": who_may,
    "recovery-log": decisions.log_table,
    "recovery-sinks": decisions.sink_table,
    "answers": decisions.answer_table,
}

FILES: dict[str, Callable[[], str]] = {
    "docs/pictures/benchmarks.svg": benchmarks_chart,
    "docs/reference/openapi.json": openapi,
}

OPENING = re.compile(r"^<!-- generated: (\S+) -->$", re.MULTILINE)
PART = re.compile(r"^<!-- generated: (\S+) -->\n(?:(?!<!-- generated: ).*\n)*?<!-- /generated -->$", re.MULTILINE)


def renewed(document: str) -> str:
    """The document with every generated part as the code writes it now."""
    if len(OPENING.findall(document)) != len(PART.findall(document)):
        raise ValueError("a generated part has no closing line <!-- /generated -->")
    return PART.sub(lambda part: opened_and_closed(part[1]), document)


def opened_and_closed(name: str) -> str:
    if name not in GENERATORS:
        raise ValueError(f"no generator {name!r}: known are {', '.join(GENERATORS)}")
    return f"<!-- generated: {name} -->\n{GENERATORS[name]().strip()}\n<!-- /generated -->"


def renew(*, write: bool) -> list[str]:
    """The documents and pictures that are out of date, written anew if wanted."""
    wanted = {path: renewed(path.read_text(encoding="utf-8")) for path in project_files(".md")}
    wanted |= {ROOT / name: draw() for name, draw in FILES.items()}
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if write:
        for path in stale:
            path.write_text(wanted[path], encoding="utf-8")
    return [relative(path) for path in stale]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="bring the documents and pictures up to date")
    action.add_argument("--check", action="store_true", help="fail if one is out of date")
    write = parser.parse_args().write
    stale = renew(write=write)
    for name in stale:
        print(f"{name}: {'written' if write else 'out of date: ./dev run python -m tests.house.generated --write'}")
    return 1 if stale and not write else 0


if __name__ == "__main__":
    sys.exit(main())
