"""The command: what it shows, its exit codes, and that it stays light."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

import tidegate
from tests.support import command
from tidegate.cli import demo as demo_command
from tidegate.cli import main
from tidegate.cli.commands import COMMANDS
from tidegate.core.errors import Code, TidegateError
from tidegate.testing.demo.driver import DemoFailed
from tidegate.testing.demo.places import Gate
from tidegate.testing.demo.run import DemoReport, Event, Options

EXACT = DemoReport(
    ok=True,
    gate="on",
    seed=7,
    records_in=10,
    records_out=10,
    lost=0,
    duplicated=0,
    wrong_counts=0,
    invented=0,
    torn=0,
    kills=2,
    kills_by_phase={"A": 1, "B": 0, "C": 1, "D": 0, "E": 0},
    epochs=8,
    aborted=1,
    redone=0,
    epoch_ms=250.0,
    seconds=20.0,
    counterexample="",
)
SPOILT = replace(EXACT, ok=False, lost=1, counterexample="lost in lines, batch 3: expected [x], found nothing")


class FakeRun:
    """Stands for the demo: notes its options, leaves a file, gives a report or raises."""

    def __init__(self, result: DemoReport | Exception) -> None:
        self.result = result
        self.options: Options | None = None

    def __call__(self, options: Options, tell: Callable[[Event], None]) -> DemoReport:
        self.options = options
        (options.folder / "kept").touch()
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    @property
    def folder(self) -> Path:
        assert self.options is not None
        return self.options.folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    fake = FakeRun(EXACT)
    monkeypatch.setattr(demo_command, "run_demo", fake)
    return fake


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main.commands, arguments)
    return result.exit_code, result.output


def test_version() -> None:
    assert invoke("--version") == (0, f"tidegate {tidegate.__version__}\n")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"]])
def test_help(arguments: list[str]) -> None:
    code, output = invoke(*arguments)
    assert code == 0
    assert "demo" in output
    assert "Exit codes" in output


def test_the_overview_says_of_each_command_what_its_own_help_begins_with() -> None:
    """It is drawn without loading any of them."""
    loaded = get_command(main.commands)
    assert isinstance(loaded, TyperGroup)
    first = {name: " ".join((each.help or "").split("\n\n")[0].split()) for name, each in loaded.commands.items()}
    shown = {name: text for name, text in first.items() if not loaded.commands[name].hidden}
    assert {name: entry.summary for name, entry in COMMANDS.items() if entry.summary} == shown
    overview = " ".join(command.tidegate("--help").stdout.replace("│", " ").split())
    assert [name for name in shown if f" {name} " not in overview] == []


def test_every_command_has_json_and_an_example_in_its_help() -> None:
    def below(name: str, found: object) -> Iterator[tuple[str, TyperCommand]]:
        if isinstance(found, TyperGroup):
            for each, inner in found.commands.items():
                yield from below(f"{name} {each}", inner)
        elif isinstance(found, TyperCommand) and not found.hidden:
            yield name, found

    commands = dict(below("tidegate", get_command(main.commands)))
    assert len(commands) > 20
    assert [name for name, each in commands.items() if not any("--json" in option.opts for option in each.params)] == []
    assert [name for name, each in commands.items() if f"`{name}" not in (each.help or "")] == []


@pytest.mark.parametrize("arguments", [["--", "list", "-a"], ["list", "-a"]])
def test_a_command_is_found_wherever_it_stands(tmp_path: Path, arguments: list[str]) -> None:
    said = command.tidegate(*arguments, "--dir", str(tmp_path))
    assert (said.code, "0 of 0 jobs" in said.stdout) == (0, True)


LOOKING = (
    "list",
    "list --json",
    "info job",
    "info job --json",
    "history job",
    "checkpoint job",
    "stop job",
    "cancel job",
    "savepoint job",
    "txn ls job",
    "txn ls",
    "check --job job",
)


@pytest.mark.parametrize("typed", LOOKING)
def test_a_folder_of_jobs_that_is_not_there_is_said(tmp_path: Path, typed: str) -> None:
    """Not that it has no jobs: that is what a person with a typo in `--dir` believes."""
    (tmp_path / "checkpoints").mkdir()
    said = command.tidegate(*typed.split(), "--dir", str(tmp_path / "chekpoints"))
    assert said.code == 3, said
    assert "TG-FOLDER-UNKNOWN" in said.stderr + said.stdout
    assert f"did you mean {tmp_path / 'checkpoints'}?" in said.stderr + said.stdout
    assert list(tmp_path.iterdir()) == [tmp_path / "checkpoints"]


def test_the_folder_of_the_settings_need_not_be_there_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = command.tidegate("list")
    assert (said.code, "0 of 0 jobs" in said.stdout) == (0, True)


def test_help_of_the_demo_has_examples() -> None:
    code, output = invoke("demo", "--help")
    assert code == 0
    assert "tidegate demo --crashes 5 --seed 7 --json" in output
    for option in ("--crashes", "--seed", "--gate", "--lines", "--input", "--dir", "--json", "-D"):
        assert option in output


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nonsense"],
        ["nonsense"],
        ["demo", "--nonsense"],
        ["demo", "--crashes", "-1"],
        ["demo", "--gate", "ajar"],
        ["demo", "--input", "no-such-folder"],
        ["demo", "-D", "checkpointing.intervall=1s"],
        ["demo", "-D", "checkpointing.interval=soon"],
        ["demo", "-D", "checkpointing.dir=elsewhere"],
    ],
)
def test_wrong_usage(run: FakeRun, arguments: list[str]) -> None:
    code, output = invoke(*arguments)
    assert code == 2
    assert "Traceback" not in output
    assert run.options is None


def test_a_folder_that_is_not_empty_is_not_touched(run: FakeRun, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    assert invoke("demo", "--dir", str(tmp_path))[0] == 2
    assert run.options is None
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_last_line_is_the_json(run: FakeRun) -> None:
    code, output = invoke("demo", "--json")
    assert code == 0
    assert msgspec.json.decode(output.splitlines()[-1], type=DemoReport) == EXACT


def test_the_table(run: FakeRun) -> None:
    code, output = invoke("demo")
    assert code == 0
    assert "exact with the gate on, seed 7" in output


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_exit_code_of_what_is_not_exact(run: FakeRun, arguments: list[str]) -> None:
    run.result = SPOILT
    code, output = invoke("demo", *arguments)
    assert code == 1
    assert SPOILT.counterexample in output


def test_the_options_reach_the_demo(run: FakeRun, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    choices = ["--crashes", "5", "--seed", "9", "--gate", "off", "--lines", "400", "--input", str(texts)]
    assert invoke("demo", *choices, "-D", "checkpointing.interval=250ms")[0] == 0
    assert run.options is not None
    assert (run.options.crashes, run.options.seed, run.options.gate, run.options.lines) == (5, 9, Gate.off, 400)
    assert run.options.text_folder == texts
    assert run.options.settings.checkpointing_interval == 0.25


def test_the_temporary_folder_goes_and_the_named_one_stays(run: FakeRun, tmp_path: Path) -> None:
    invoke("demo")
    assert not run.folder.exists()
    invoke("demo", "--dir", str(tmp_path / "new"))
    assert (tmp_path / "new" / "kept").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DemoFailed("no"), SystemExit(143)])
def test_the_temporary_folder_goes_however_it_ends(
    run: FakeRun, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(options: Options, tell: Callable[[Event], None]) -> DemoReport:
        run.options = options
        raise error

    monkeypatch.setattr(demo_command, "run_demo", fail)
    invoke("demo")
    assert not run.folder.exists()


@pytest.mark.parametrize(
    "error",
    [
        DemoFailed("driver 2 ended by itself"),
        TidegateError(Code.JAVA_MISSING, expected="Java 17", found="none", where="PATH", next_step="install it"),
    ],
)
def test_errors_are_shown_without_a_traceback(
    run: FakeRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    run.result = error
    monkeypatch.setattr(sys, "argv", ["tidegate", "demo"])
    with pytest.raises(SystemExit) as ended:
        main.app()
    assert ended.value.code == 1
    assert capsys.readouterr().err.endswith(f"{error}\n")


def test_the_command_stays_light() -> None:
    program = "import sys, tidegate.cli.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"pyspark", "py4j", "pyarrow", "pandas", "numpy"}
