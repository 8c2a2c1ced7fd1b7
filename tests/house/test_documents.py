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

from tests.house.generated import renew
from tests.house.markdown import Block, blocks
from tests.house.repository import ROOT, project_files, relative
from tidegate.core.errors import Code

DOCUMENTS = project_files(".md")


def parse_shell(text: str) -> None:
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


PARSERS = {"python": ast.parse, "sh": parse_shell, "json": json.loads}


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_every_code_block_parses(path: Path) -> None:
    for block in blocks(path):
        if block.language in PARSERS:
            PARSERS[block.language](block.text)


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative)
def test_the_blocks_marked_run_do_run(path: Path, tmp_path: Path) -> None:
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
