"""The comparisons of whole programs: what their figures are made of, what is left out, what each side is given."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bench import archive, by_hand, kafka_flink, kafka_other
from bench.__main__ import possible
from bench.child import COLD, NEEDS
from bench.contests import WORKS, Contest, Quantity, Run, figure_of, measure_contests
from bench.environments import BYTEWAX, FLINK, QUIX
from bench.figures import Figure
from bench.watched import Course, Entrant, Outcome, Task
from tests.support.today import turn

Q = Quantity


def runs(*seconds: tuple[float, float], cpu: float = 1.0, mib: float = 100.0) -> list[Run]:
    return [Run(Outcome(few, 0.5, 50.0), Outcome(whole, cpu, mib)) for few, whole in seconds]


SLOW = runs((10.0, 30.0), (11.0, 33.0), (9.0, 27.0), cpu=40.0, mib=2000.0)
QUICK = runs((12.0, 22.0), (12.0, 23.0), (12.0, 21.0), cpu=30.0, mib=1000.0)


def compared(quantity: Quantity, theirs: list[Run] = SLOW, ours: list[Run] = QUICK) -> Figure:
    return figure_of("name", "what", quantity, theirs, ours, goal=0.85)


@pytest.mark.parametrize(
    ("quantity", "ratio", "medians"),
    [
        (Q.WHOLE, 0.73, {"baseline s": 30.0, "tidegate s": 22.0}),
        (Q.NET, 0.5, {"baseline s": 20.0, "tidegate s": 10.0}),
        (Q.CPU, 0.75, {"baseline CPU s": 40.0, "tidegate CPU s": 30.0}),
        (Q.MEMORY, 0.5, {"baseline MiB": 2000.0, "tidegate MiB": 1000.0}),
    ],
)
def test_the_median_of_tidegate_is_divided_by_that_of_the_baseline(
    quantity: Quantity, ratio: float, medians: Mapping[str, float]
) -> None:
    figure = compared(quantity)
    assert figure.value == ratio
    assert figure.medians() == medians


@pytest.mark.parametrize(("theirs", "ours"), [(runs((30.0, 25.0)), QUICK), (SLOW, runs((30.0, 30.0)))])
def test_no_goal_is_met_by_a_start_that_took_longer_than_the_whole_run(theirs: list[Run], ours: list[Run]) -> None:
    with pytest.raises(ValueError, match="the starts alone took longer"):
        compared(Q.NET, theirs, ours)


class Recorded(Course):
    """Runs nothing: remembers what was to be run."""

    def run(self, entrant: Entrant, work: str, events: int) -> Outcome:
        self.runs += 1
        self.servers += f"{entrant.title} {work} {events}\n"
        return Outcome(events / 1000, 1.0, 1.0)


def entrant(title: str) -> Entrant:
    return Entrant(title, lambda task: [task.out])


@pytest.mark.parametrize(
    ("quick", "suffixes"), [(True, ["", "-cpu", "-memory"]), (False, ["", "-net", "-cpu", "-memory"])]
)
def test_what_two_contests_share_runs_once_a_round(quick: bool, suffixes: list[str]) -> None:
    course = Recorded(Path(), "", {})
    ours = entrant("ours")
    contests = [
        Contest("", "first", entrant("one"), ours, {Q.WHOLE: 1.1}),
        Contest("-b", "second", entrant("two"), ours, {}),
    ]
    figures = measure_contests("name", "map", contests, course, 2, quick=quick)
    whole = 100_000 if quick else 2_000_000
    a_round = [f"{title} map {events}" for title in ("one", "ours", "two") for events in (2_000, whole)]
    assert course.servers.splitlines() == a_round * 2
    assert [figure.name for figure in figures] == [f"name{each}{end}" for each in ("", "-b") for end in suffixes]
    assert figures[0].goal == (None if quick else 1.1)


def test_each_side_of_a_comparison_with_pyflink_does_the_same_work() -> None:
    task = Task("count", "servers", "source", "out", Path("folder"))
    for contest in kafka_flink.contests("count"):
        assert {"count", "servers", "source", "out"} <= set(contest.tidegate.command(task))


def test_a_level_is_what_the_program_of_tidegate_is_told() -> None:
    level = kafka_flink.contests("map")[-1]
    task = Task("map", "servers", "source", "out", Path("folder"))
    assert "exactly-once" in level.baseline.command(task)
    assert "at-least-once" in level.tidegate.command(task)


def test_the_archive_of_classes_is_made_only_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made"

    def command_to_make(wanted: Path) -> list[str]:
        wanted.parent.mkdir()
        return ["sh", "-c", f"echo made >>{made}; touch {wanted}"]

    monkeypatch.setattr(archive, "command_to_make", command_to_make)
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    archive.make_class_archive(environment)
    archive.make_class_archive(environment)
    assert made.read_text() == "made\n"
    assert capsys.readouterr().err.count("making the archive of Spark's classes") == 1


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    for each in (FLINK, QUIX, BYTEWAX):
        monkeypatch.setenv(each.variable, str(tmp_path / each.folder))

    def installed(name: str) -> Path:
        packages = tmp_path / "flink" / "lib" / "python3.11" / "site-packages"
        (packages / f"{name}.dist-info").mkdir(parents=True)
        (packages / "apache_flink_libraries-9.9.9.dist-info").mkdir()
        return tmp_path / "flink"

    return installed


def test_with_pyflink_all_that_was_asked_for_is_run(install: Callable[[str], Path]) -> None:
    place = install("apache_flink-2.2.1")
    assert FLINK.installed_version() == "2.2.1"
    assert FLINK.python() == place / "bin" / "python"
    assert possible(["kafka-map", "kafka-flink-map"]) == ["kafka-map", "kafka-flink-map"]


@pytest.mark.usefixtures("install")
def test_without_another_system_what_needs_it_is_left_out_with_the_command_that_installs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert possible(["kafka-map", *NEEDS]) == ["kafka-map"]
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in told] == list(NEEDS)
    for line, needed in zip(told, NEEDS.values(), strict=True):
        assert f"{tmp_path / needed.folder}/bin/pip install '{needed.package}=={needed.version}'" in line


def test_what_is_compared_with_other_systems_starts_as_the_users_of_tidegate_start() -> None:
    assert set(NEEDS) <= COLD


@pytest.mark.parametrize("name", kafka_other.CASES)
def test_another_system_is_given_the_work_that_tidegate_is_given(name: str) -> None:
    case = kafka_other.CASES[name]
    line = case.other.entrant().command(Task(case.work, "servers", "source", "out", Path("folder")))
    assert [case.work, "servers", "source", "out"] == line[-5:-1]
    assert case.needs is None or line[0] == str(case.needs.python())


@turn(0, of=4)
@pytest.mark.parametrize("work", WORKS)
def test_by_hand_every_compared_program_is_told_once_with_its_command(work: str, tmp_path: Path) -> None:
    task = Task(work, "servers", "source", "out", tmp_path / "a folder")
    entrants = by_hand.entrants_of(work)
    lines = list(by_hand.told([(entrant, task) for entrant in entrants]))
    assert len({entrant.title for entrant in entrants}) == len(entrants) == 9
    assert {"PyFlink sql", "tidegate sql, at-least-once", "Bytewax"} <= {entrant.title for entrant in entrants}
    assert [shlex.split(line) for line in lines[1::2]] == [list(entrant.command(task)) for entrant in entrants]
