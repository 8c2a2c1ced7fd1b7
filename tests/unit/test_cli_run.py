"""`tidegate run` as a command: help, wrong usage, and what Flink's users type."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from tidegate.cli import main
from tidegate.cli import run as run_command
from tidegate.cli.flink_forms import FORMS, answer_to
from tidegate.cli.run import exit_of
from tidegate.core.fingerprints import Allowed
from tidegate.savepoints.asked_restore import ALLOWED_VARIABLE
from tidegate.submit.submission import Submission
from tidegate.supervise.outcomes import JobEnd, JobOutcome


@pytest.fixture
def environments() -> list[Mapping[str, str]]:
    """Those of what was started."""
    return []


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch, environments: list[Mapping[str, str]]) -> list[object]:
    """What was started; nothing is."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    programs: list[object] = []

    class Never:
        def __init__(self, program: object, *_: object, environment: Mapping[str, str], **__: object) -> None:
            programs.append(program)
            environments.append(environment)

        def run(self) -> JobEnd:
            return JobEnd(outcome=JobOutcome.FINISHED, job="words", restarts=0)

    monkeypatch.setattr(run_command, "Supervisor", Never)
    return programs


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main.commands, arguments)
    return result.exit_code, result.output


def test_help_has_examples_and_exit_codes():
    code, output = invoke("run", "--help")
    assert code == 0
    assert "tidegate run wordcount.py" in output
    assert "Exit codes" in output


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["-ynm", "name", "app.py"], "--master yarn"),
        (["-m", "host:8081", "app.py"], "tidegate run --master spark://host:7077 APP.py"),
        (["-p", "4", "app.py"], "-D parallelism=N"),
        (["-p4", "app.py"], "-D parallelism=N"),
        (["-py", "app.py"], "without an option"),
        (["--parallelism=4", "app.py"], "-D parallelism=N"),
        (["-d", "-D", "a=b", "-s", "x", "-rm", "CLAIM", "app.py"], "--claim"),
        (["--fromSavepoint", "x", "--claimMode=NO_CLAIM", "app.py"], "only read"),
    ],
)
def test_flinks_options_are_answered(started: list[object], arguments: list[str], answer: str):
    code, output = invoke("run", *arguments)
    assert code == 2
    assert answer in " ".join(output.replace("│", " ").split())
    assert "No such option" not in output
    assert started == []


@pytest.mark.parametrize("command", ["run", "run-application"])
@pytest.mark.parametrize(
    ("arguments", "notes"),
    [
        (["-yid", "application_1_2"], ["-yid application_1_2: HADOOP_CONF_DIR is not set"]),
        (["--yarnapplicationId=application_1_2"], ["--yarnapplicationId application_1_2: HADOOP_CONF_DIR is not set"]),
        (["-c", "com.example.Main"], ["-c com.example.Main: a Python program has no entry class"]),
        (["-t", "yarn-application"], ["-t yarn-application: HADOOP_CONF_DIR is not set"]),
        (
            ["-tyarn-application", "--class", "Main"],
            ["-tyarn-application: HADOOP_CONF_DIR", "--class Main: a Python program"],
        ),
    ],
)
def test_a_cluster_and_an_entry_class_are_answered_and_the_program_runs(
    started: list[object], command: str, arguments: list[str], notes: list[str]
):
    code, output = invoke(command, *arguments, "-D", "state.backend=rocksdb", "app.py", "-c", "mine", "-yid", "its")
    assert code == 0
    assert all(f"note: {note}" in output for note in notes)
    assert output.count("note: ") == len(notes)
    assert started == [["app.py", "-c", "mine", "-yid", "its"]]


@pytest.mark.parametrize(
    ("arguments", "master"),
    [
        (["-yid", "application_1_2"], "--master yarn"),
        (["-t", "yarn-session", "-c", "Main"], "--master yarn"),
        (["--master", "local[2]", "-yid", "application_1_2"], "--master 'local[2]'"),
        (["-c", "Main"], ""),
    ],
)
def test_where_there_is_yarn_its_options_name_the_master(
    started: list[object],
    environments: list[Mapping[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    master: str,
):
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop/conf")
    code, output = invoke("run", *arguments, "-s", "savepoints/one", "app.py")
    assert (code, started) == (0, [["app.py"]]), output
    assert environments[0].get("PYSPARK_SUBMIT_ARGS", "").removesuffix(" pyspark-shell") == master


@pytest.mark.parametrize(
    ("arguments", "waits"),
    [
        (["run-application", "-d", "-t", "yarn-application", "-Dstate.backend=rocksdb", "-c", "Main"], False),
        (["run", "--master", "yarn", "--deploy-mode", "cluster"], True),
    ],
)
def test_a_program_for_the_inside_of_yarn_is_submitted(
    started: list[object], monkeypatch: pytest.MonkeyPatch, arguments: list[str], waits: bool
):
    submitted: list[object] = []

    def submit(submission: Submission, program: list[str], *_: object, waits: bool) -> int:
        submitted.extend([submission.master, program, waits])
        return 0

    monkeypatch.setattr(run_command, "run_in_cluster", submit)
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop/conf")
    code, output = invoke(*arguments, "-s", "savepoints/one", "app.py", "--port")
    assert (code, submitted, started) == (0, ["yarn", ["app.py", "--port"], waits], []), output


def test_a_jar_is_refused_with_the_line_to_type(started: list[object]):
    submit = ["-d", "-t", "yarn-application", "-Dstate.backend=rocksdb", "-c", "com.example.Main"]
    code, output = invoke("run-application", *submit, "-s", "savepoints/one", "app.jar", "--port", "7777")
    assert code == 2
    said = " ".join(output.replace("│", " ").split())
    assert "tidegate run -d -Dstate.backend=rocksdb -s savepoints/one APP.py --port 7777" in said
    assert started == []


def test_every_answer_is_of_an_option():
    assert all(option.startswith("-") and answer_to(option) for option in FORMS)
    assert answer_to("--nonsense") is None


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--nonsense", "app.py"],
        ["-D", "checkpointing.intervall=1s", "app.py"],
        ["-D", "checkpointing.interval=soon", "app.py"],
        ["--log-file", "x", "app.py"],
        ["--log-format", "xml", "app.py"],
        ["--claim", "app.py"],
        ["-n", "app.py"],
        ["--rewind", "app.py"],
        ["-s", "x", "--map", "words", "app.py"],
        ["-s", "x", "--map", "a=b=c", "app.py"],
        ["-s", "x", "--map", "a=b", "--map", "a=c", "app.py"],
    ],
)
def test_wrong_usage(started: list[object], arguments: list[str]):
    code, output = invoke("run", *arguments)
    assert code == 2
    assert "Traceback" not in output
    assert started == []


def test_options_behind_the_program_are_the_programs(started: list[object], tmp_path: Path):
    assert invoke("run", "--dir", str(tmp_path), "app.py", "-t", "x", "-D", "y", "--help") == (0, "")
    assert started == [["app.py", "-t", "x", "-D", "y", "--help"]]


def test_the_json_is_one_line():
    code, output = invoke("run", "--json", "app.py")
    assert code == 0
    assert output.splitlines()[-1] == '{"outcome":"finished","job":"words","restarts":0,"code":0,"failure":null}'


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (JobOutcome.FINISHED, 7),
        (JobOutcome.STOPPED, 7),
        (JobOutcome.FAILED, 1),
        (JobOutcome.UNUSABLE, 2),
        (JobOutcome.REFUSED, 4),
        (JobOutcome.PENDING, 6),
        (JobOutcome.INTERRUPTED, 130),
    ],
)
def test_exit_codes(outcome: JobOutcome, code: int):
    assert exit_of(JobEnd(outcome=outcome, job=None, restarts=0, code=7)) == code


def test_operators_that_may_be_others_are_handed_on_under_an_id_of_the_command(monkeypatch: pytest.MonkeyPatch):
    environments: list[dict[str, str]] = []

    class Notes:
        def __init__(self, *_: object, environment: dict[str, str], **__: object) -> None:
            environments.append(environment)

        def run(self) -> JobEnd:
            return JobEnd(outcome=JobOutcome.FINISHED, job="words", restarts=0)

    monkeypatch.setattr(run_command, "Supervisor", Notes)
    options = ["--allow-changed-operator", "counts", "--allow-changed-operator", "words/0"]
    for _ in range(2):
        assert invoke("run", *options, "app.py")[0] == 0
    first, second = (msgspec.json.decode(each[ALLOWED_VARIABLE], type=Allowed) for each in environments)
    assert first.operators == second.operators == ("counts", "words/0")
    assert first.once != second.once
    assert invoke("run", "app.py")[0] == 0
    assert ALLOWED_VARIABLE not in environments[-1]
