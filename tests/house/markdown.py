"""Fenced code blocks of a Markdown document.

A block marked `run` behind its language (```python run, ```sh run) is executed by the tests; every other block must
at least parse. The blocks of one document run in order in one empty folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?P<options>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
FILE_NAME = re.compile(r"# (?P<name>\w+\.py)\n")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: where it begins, its language, whether tests run it, its text."""

    path: Path
    line: int
    language: str
    runs: bool
    text: str

    @property
    def file_name(self) -> str:
        """The name in the first comment line, under which the document tells the reader to save the program."""
        named = FILE_NAME.match(self.text)
        return named["name"] if named else f"line_{self.line}.py"


def blocks(path: Path) -> list[Block]:
    document = path.read_text(encoding="utf-8")
    return [
        Block(
            path=path,
            line=document.count("\n", 0, found.start()) + 1,
            language=found["language"],
            runs="run" in found["options"].split(),
            text=re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
        )
        for found in FENCE.finditer(document)
    ]
