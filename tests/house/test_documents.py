"""The documents say what is true: code blocks parse or run, generated parts are fresh, codes are explained."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.command_reference import commands
from tests.house.generated import renew
from tests.house.markdown import Block, blocks
from tests.house.repository import ROOT, project_files, relative
from tests.house.site import on_page_markdown
from tests.support.today import sampled
from tidegate.cli.commands import COMMANDS
from tidegate.core.errors import Code, TidegateError
from tidegate.settings.reading import read_settings

DOCUMENTS = project_files(".md")
RUNNING = [pytest.param(path, id=relative(path)) for path in DOCUMENTS if any(block.runs for block in blocks(path))]


def parse_shell(text: str) -> None:
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


PARSERS = {"python": ast.parse, "sh": parse_shell, "json": json.loads}


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_every_code_block_parses(path: Path) -> None:
    for block in blocks(path):
        if block.language in PARSERS:
            PARSERS[block.language](block.text)


@pytest.mark.parametrize("path", sampled(RUNNING, (len(RUNNING) + 3) // 4))
def test_the_blocks_marked_run_do_run(path: Path, tmp_path: Path) -> None:
    """Each page runs every fourth day, and with `-m more`: most blocks start Spark."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in blocks(path):
        if block.runs:
            done = subprocess.run(
                command(block, tmp_path),
                cwd=tmp_path,
                env={**os.environ, "PATH": tools},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, f"{relative(path)}:{block.line}\n{done.stdout}\n{done.stderr}"


def command(block: Block, folder: Path) -> list[str]:
    if block.language == "sh":
        return ["bash", "-euo", "pipefail", "-c", block.text]
    (folder / block.file_name).write_text(block.text, encoding="utf-8")
    return [sys.executable, block.file_name]


def test_generated_parts_are_what_the_code_says() -> None:
    assert renew(write=False) == [], "write them with: ./dev run python -m tests.house.generated --write"


def test_every_error_code_is_documented() -> None:
    explained = {code for path in DOCUMENTS for code in re.findall(r"TG-[A-Z0-9-]+\b", path.read_text("utf-8"))}
    assert {code.label for code in Code} - explained == set(), "no document explains them"


def test_the_readme_says_how_to_try_it() -> None:
    """What `./dev fresh` does in an empty folder: two commands, then a program saved under its first line's name."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.search(r"^## Try it\n.*?^```sh[^\n]*\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert commands
    assert [line.split("#")[0].strip() for line in commands[1].splitlines()] == ["./dev demo", "./dev test"]
    assert re.search(r"^```python[^\n]*\n# \w+\.py\n", readme, re.MULTILINE)


def test_the_keys_of_flink_in_the_documents_are_understood_or_answered() -> None:
    page = (ROOT / "docs" / "coming-from-flink.md").read_text(encoding="utf-8")
    keys = set(re.findall(r"`((?:execution|state|restart-strategy|parallelism|pipeline)\.[a-z.-]+)`", page))
    keys -= {setting for setting in keys if setting in {"state.backend", "state.incremental", "state.changelog"}}
    unknown = {key for key in keys if "did you mean" in refusal(key) or "or take one of" in refusal(key)}
    assert len(keys) > 20
    assert unknown == set()


def refusal(key: str) -> str:
    """The error for a value that fits no setting under this key."""
    with pytest.raises(TidegateError) as caught:
        read_settings({}, {}, [f"{key}=\0"])
    return str(caught.value)


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_the_commands_in_shell_blocks_exist(path: Path) -> None:
    known = {*COMMANDS, *(command.split()[1] for command in commands())}
    lines = [line for block in blocks(path) if block.language == "sh" for line in block.text.splitlines()]
    typed = {found[1] for line in lines if (found := re.match(r"\s*tidegate ([a-z][a-z-]*)", line))}
    assert typed - known == set()


def test_the_commands_of_a_group_that_the_code_names_exist() -> None:
    """In errors and their next steps. A group without a sub-command that is a job's name: `savepoint JOB` takes one."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    named = {found for text in sources for found in re.findall(r"\b(tidegate (?:txn|config|broker) [a-z]+)\b", text)}
    assert named - commands() - {"tidegate config import"} == set()


def test_every_page_is_reachable_from_the_index() -> None:
    docs = ROOT / "docs"
    reached, waiting = set[Path](), [docs / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            links = re.findall(r"\]\(([^)#:]+\.md)", page.read_text(encoding="utf-8"))
            waiting += [(page.parent / link).resolve() for link in links]
    assert {path for path in DOCUMENTS if path.is_relative_to(docs)} - reached == set()


def test_every_picture_is_shown_and_described() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    for picture in (ROOT / "docs" / "pictures").glob("*.svg"):
        assert re.search(rf"!\[[^]]+\]\([^)]*{picture.name}\)", texts), picture.name
        assert "<title>" in picture.read_text(encoding="utf-8"), picture.name


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_the_site_shows_every_code_block_as_one(path: Path) -> None:
    """Its Markdown takes a fence for one only if nothing stands behind the language."""
    shown = on_page_markdown(path.read_text(encoding="utf-8"))
    assert re.findall(r"^ *```\w+[^\S\n]+\S.*$", shown, re.MULTILINE) == []
