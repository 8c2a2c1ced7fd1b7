"""A real job that reads files, killed while its files come, move and go; then every row is compared.

`./dev campaign files` strikes by a seeded plan; here are two kills, behind `more` a plan and the planted bugs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign.schedule import At
from tests.campaign_files.acts import IN_PLACE, MOVE
from tests.campaign_files.planted import PLANTED
from tests.campaign_files.report import summary
from tests.campaign_files.run import Options, Report, run_campaign
from tests.campaign_files.schedule import Inside, Step
from tests.support.today import turn
from tidegate.core.failpoints import Action

pytestmark = pytest.mark.timeout(600)

BETWEEN_LIST_AND_LOG = Step(Inside("list.after"), "delete", (IN_PLACE,), (MOVE,))
A_FILE_OF_THE_EPOCH_GOES = Step(
    At("prepared.before", Action.CRASH, jvm_too=True), "delete", (), ("delete a file of an open epoch",)
)
MANY_IN_PLACE = Step(At("task.write", Action.CRASH), "keep", (IN_PLACE,) * 8)
FILES_GO = Step(Inside("gone.after"), "delete")


def strike(
    folder: Path, steps: list[Step] | None, *, seed: int = 4, kills: int = 0, planted: str | None = None
) -> Report:
    options = Options(folder=folder, kills=kills, seed=seed, planted=planted)
    return run_campaign(options, lambda _: None, steps)


@turn(0, of=4)
def test_files_that_move_and_go_around_kills_count_once_and_every_refusal_is_true(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = strike(tmp_path, [BETWEEN_LIST_AND_LOG, A_FILE_OF_THE_EPOCH_GOES])
    with capsys.disabled():
        print("\n" + summary(report))
    assert report.flaws == []
    assert (report.kills, report.found) == (2, dict.fromkeys(report.found, 0))
    assert report.records > 0
    assert report.let_go > 0
    assert [code.partition(",")[0] for code in report.refused] == ["TG-FILE-LOST"]


@pytest.mark.more
def test_a_plan_of_kills_loses_and_repeats_nothing(tmp_path: Path) -> None:
    report = strike(tmp_path, None, seed=5, kills=12)
    assert (report.flaws, report.kills) == ([], 12)


@pytest.mark.more
@pytest.mark.parametrize(
    ("planted", "steps"),
    [
        ("no settling", [MANY_IN_PLACE]),
        ("index before list", [BETWEEN_LIST_AND_LOG]),
        ("the fastest query is enough", [FILES_GO] * 3),
        ("lost without a word", [A_FILE_OF_THE_EPOCH_GOES]),
    ],
)
def test_a_planted_bug_is_found(tmp_path: Path, planted: str, steps: list[Step]) -> None:
    assert planted in PLANTED
    assert len(strike(tmp_path, steps, planted=planted).flaws) == 1
