"""What all campaigns need."""

from __future__ import annotations

import pytest

from tests.campaign.run import has_archive, make_archive


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Made once in an environment, it halves the time of every start after it."""
    if not has_archive():
        make_archive(tmp_path_factory.mktemp("archive"))
