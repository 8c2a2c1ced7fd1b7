"""Variables of the environment for a block."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager

import pytest


@contextmanager
def variables(wanted: Mapping[str, str], unset: Iterable[str] = ()) -> Generator[None]:
    """Set these variables for the block, and unset others before."""
    with pytest.MonkeyPatch.context() as patch:
        for name in unset:
            patch.delenv(name, raising=False)
        for name, value in wanted.items():
            patch.setenv(name, value)
        yield
