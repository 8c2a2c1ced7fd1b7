"""A hook of mkdocs: the mark `run` of a code block is for the tests, and Markdown knows the language alone."""

from __future__ import annotations

import re
from typing import Any

MARKED = re.compile(r"^( *```\w+) run$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    return MARKED.sub(r"\1", markdown)
