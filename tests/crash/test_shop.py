"""`examples/shop.py` on PostgreSQL, Redis and Kafka, killed twice: every store has each row once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shop.run import Options, run_shop
from tests.support.today import sampled

SEEDS = [pytest.param(seed, id=f"seed-{seed}") for seed in range(1, 5)]


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", sampled(SEEDS, every=6, on=3))
def test_every_store_of_the_shop_has_each_row_once_after_kills(tmp_path: Path, seed: int) -> None:
    report = run_shop(Options(folder=tmp_path, crashes=2, seed=seed, files=8), print)
    assert report.ok, report
    assert all(each.rows for each in report.stores[:-1]), "the comparison has seen nothing"
