"""Programs are started only from folders that the operator allows, and after the verdict of `savepoint check`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.jobs.folders import make_job, say
from tests.web.by_hand import ID, page, until
from tidegate import operate
from tidegate.core.health import failed
from tidegate.operate import Folder, Restore, RestoreCheck
from tidegate.operate.beat import JobState
from tidegate.savepoints.asked_restore import Said
from tidegate.web import programs
from tidegate.web.programs import StartOrder, command, environment_of_programs
from tidegate.web.site import Site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of programs: one is hidden, one is no Python, one leads out of it."""
    found = tmp_path / "programs"
    found.mkdir()
    for name in ("words.py", ".hidden.py", "words.jar"):
        (found / name).write_text("")
    (tmp_path / "outside.py").write_text("")
    (found / "link.py").symlink_to(tmp_path / "outside.py")
    return found


@pytest.fixture
def client(tmp_path: Path, folder: Path) -> Iterator[TestClient]:
    """A page of a storage with one job, which may start the programs of a folder."""
    say(make_job(tmp_path / "jobs"), JobState.FINISHED)
    with page(tmp_path / "jobs", (folder,)) as found:
        yield found


STAND_IN = """
import json, os, subprocess, sys
late = f"import time; time.sleep(0.5); open({sys.argv[1]!r}, 'w')"
subprocess.Popen([sys.executable, "-c", late], stdin=-3, stdout=-3, stderr=-3)
print(json.dumps({"job": "job", "process": os.getsid(0), "log": str(os.getpid())}))
"""


def words(client: TestClient) -> str:
    return client.get("/jars").json()["files"][0]["id"]


def test_nothing_is_started_unless_the_operator_has_named_a_folder(tmp_path: Path) -> None:
    make_job(tmp_path)
    with page(tmp_path) as client:
        answers = [client.get("/jars"), client.post("/jars/x/run", json={}), client.post("/jars/x/check", json={})]
        assert [(each.status_code, "ui.programs" in each.json()["next_step"]) for each in answers] == [(403, True)] * 3
        assert client.get("/config").json()["features"]["web-submit"] is False


def test_the_programs_are_the_python_files_of_the_folder(client: TestClient) -> None:
    (file,) = client.get("/jars").json()["files"]
    assert {"id", "name", "uploaded", "entry"} == set(file)
    assert file["name"] == "words.py"
    for unknown in ("outside.py", "..%2Foutside.py", file["id"].replace("words", "link")):
        assert client.post(f"/jars/{unknown}/run", json={}).status_code == 404


def test_the_command_has_what_was_asked_in_a_storage_that_is_served(tmp_path: Path, folder: Path) -> None:
    site = Site.of(Folder.of(tmp_path), (str(folder),))
    (found,) = programs.programs(site)
    order = StartOrder(
        program=found,
        arguments=["--since", "2024"],
        parallelism=4,
        savepoint="/s",
        allow_non_restored_state=True,
        claim=True,
    )
    line = command(site, order)
    program = str(folder / "words.py")
    assert line[line.index("run") :] == [
        "run", "-d", "--json", "--dir", str(tmp_path), "-D", "parallelism=4", "-s", "/s", "-n", "--claim", program,
        "--since", "2024",
    ]  # fmt: skip
    assert command(site, StartOrder(program=found, allow_non_restored_state=True, claim=True))[-1] == program


def test_a_program_gets_no_token_and_nothing_that_processes_of_another_job_hand_on() -> None:
    mine = {"PATH": "/bin", "TIDEGATE_UI_TOKEN": "t", "TIDEGATE_RESTORE": "{}", "TIDEGATE_CONFIG": "file"}
    assert environment_of_programs(mine) == {"PATH": "/bin", "TIDEGATE_CONFIG": "file"}


def test_a_start_that_cannot_be_restored_is_refused_with_its_reasons(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    asked: list[Restore] = []

    def check(*arguments: Any, **_: object) -> RestoreCheck:
        asked.append(arguments[3])
        return RestoreCheck(Said(verdict="impossible"), (failed("words.py", "no query `old`", "name it by --map"),))

    monkeypatch.setattr(operate, "check_restore", check)
    monkeypatch.setattr(programs, "_started", lambda *_: started.append(1))
    savepoint = str(tmp_path / "jobs" / "saved")
    body = {"savepointPath": savepoint, "allowNonRestoredState": True, "claimMode": "CLAIM"}
    refused = client.post(f"/jars/{words(client)}/run", json=body)
    assert refused.status_code == 409
    assert "no query `old`; next: name it by --map" in refused.json()["detail"]
    assert asked == [Restore(savepoint, claim=True, allow_non_restored_state=True)]
    assert started == []

    ticket = client.post(f"/jars/{words(client)}/check", json={**body, "id": "first-look"}).json()["id"]
    shown = until(client, f"/jars/{words(client)}/check/{ticket}", "state", "done")
    assert (ticket, shown["verdict"], len(shown["reasons"])) == ("first-look", "impossible", 1)
    outside = client.post(f"/jars/{words(client)}/run", json={"savepointPath": "/etc"})
    assert outside.status_code == 403


def test_a_start_answers_with_the_id_of_the_job_and_says_what_it_ignores(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    orders: list[StartOrder] = []

    def started(_: Site, order: StartOrder) -> programs.StartedJob:
        orders.append(order)
        return programs.StartedJob(job="job", process=7, log="/log")

    monkeypatch.setattr(programs, "_started", started)
    body = {"entryClass": "org.Words", "programArgs": "--name 'a b'", "programArgsList": ["x"], "parallelism": 3}
    answer = client.post(f"/v1/jars/{words(client)}/run?parallelism=2&program-args=y", json=body).json()
    assert (answer["jobid"], answer["process"]) == (ID, 7)
    assert answer["notes"] == ["entryClass is ignored: a Python program has none"]
    client.post(f"/jars/{words(client)}/run?parallelism=2&programArg=a,b&entry-class=C")
    assert [(each.arguments, each.parallelism) for each in orders] == [(["x", "--name", "a b"], 3), (["a", "b"], 2)]
    for refused in ({"claimMode": "LEGACY"}, {"parallelism": 0}, {"programArgs": "'open"}, {"jobId": ID}):
        assert client.post(f"/jars/{words(client)}/run", json=refused).status_code == 400


def test_a_program_runs_in_a_session_of_its_own(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What stands in for `tidegate run -d` tells its session, and its child goes on after the answer."""
    lives, stand_in = tmp_path / "lives", tmp_path / "stand_in.py"
    stand_in.write_text(STAND_IN)
    monkeypatch.setattr(programs, "command", lambda *_: [sys.executable, str(stand_in), str(lives)])
    answer = client.post(f"/jars/{words(client)}/run", json={}).json()
    assert answer["process"] == int(answer["log"]), "it leads its session"
    end = time.monotonic() + 20
    while not lives.exists():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("not json", "was not started"),
        (json.dumps({"job": "job", "process": 1, "log": "l", "exit": 4, "text": "TG-X"}), "TG-X"),
    ],
)
def test_a_start_that_fails_says_why(client: TestClient, monkeypatch: pytest.MonkeyPatch, said: str, word: str) -> None:
    monkeypatch.setattr(programs, "command", lambda *_: [sys.executable, "-c", f"print({said!r})"])
    refused = client.post(f"/jars/{words(client)}/run", json={})
    assert (refused.status_code, word in refused.json()["detail"]) == (409, True)
