"""The log has a line for each action. It names the savepoint, the program and the job that was started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.jobs.folders import make_job, say
from tests.support.logged import events, told
from tests.web.by_hand import ID, page
from tidegate.core.redaction import SECRETS
from tidegate.operate.beat import JobState
from tidegate.web import programs


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A page with a job that has ended, and a program that starts at once."""
    allowed = tmp_path / "programs"
    allowed.mkdir()
    (allowed / "words.py").write_text("")
    say(make_job(tmp_path / "jobs"), JobState.FINISHED)
    monkeypatch.setattr(programs, "_started", lambda *_: programs.StartedJob(job="job", process=7, log="/log"))
    with page(tmp_path / "jobs", (allowed,)) as found:
        yield found


def test_the_start_of_a_program_names_the_program_and_the_job(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    program = client.get("/jars").json()["files"][0]["id"]
    client.post(f"/jars/{program}/run", json={"programArgs": "--login guess-me"})
    assert f"POST /jars/{{jar}}/run program '{program}' started 'job' by " in told(caplog)[0]
    assert "guess-me" not in caplog.text


@pytest.mark.parametrize(
    ("path", "body", "what"),
    [
        pytest.param("/savepoint-disposal", {"savepoint-path": "{saved}"}, "savepoint '{saved}'", id="dispose"),
        pytest.param("/savepoints/verify", {"path": "{saved}"}, "savepoint '{saved}'", id="verify"),
        pytest.param(
            "/jars/none/check", {"savepointPath": "{saved}"}, "program 'none' savepoint '{saved}'", id="check"
        ),
        pytest.param(
            f"/jobs/{ID}/actions", {"kind": "savepoint", "into": "/etc"}, "kind 'savepoint' into '/etc'", id="action"
        ),
        pytest.param(
            f"/jobs/{ID}/savepoints",
            {"target-directory": "/etc", "cancel-job": True},
            "cancel 'True' into '/etc'",
            id="savepoint of Flink",
        ),
        pytest.param(
            f"/jobs/{ID}/stop", {"targetDirectory": "/etc", "drain": True}, "drain 'True' into '/etc'", id="stop"
        ),
    ],
)
def test_an_action_names_its_savepoint_and_its_folder_also_if_it_is_refused(
    client: TestClient, tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, body: dict[str, Any], what: str
) -> None:
    saved = str(tmp_path / "jobs" / "saved" / "savepoint-1")
    sent = {name: saved if value == "{saved}" else value for name, value in body.items()}
    client.post(path, json=sent)
    ((name, fields),) = events(caplog)
    assert (name, fields["what"]) == ("ActedOnPage", what.replace("{saved}", saved))
    assert f" {fields['what']} " in told(caplog)[0]


def test_a_cancel_of_flink_is_named(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    client.patch(f"/jobs/{ID}")
    assert events(caplog)[0][1]["what"] == "kind 'cancel'"


def test_a_path_brings_no_secret_no_line_and_no_long_text_into_the_log(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    SECRETS.add("a-known-secret-of-this-test")
    for path in (
        "s3://user:pass-of-a-url@bucket/saved",
        "/saved?token=a-token-by-its-name",
        "/" + "x" * 180 + "a-known-secret-of-this-test",
        "/x\r\nforged\x1b[2J\u202e",
        "/" + "y" * 4_000,
    ):
        client.post("/savepoints/verify", json={"path": path})
    lines = told(caplog)
    assert len(lines) == 5
    text = "".join(lines) + str(events(caplog))
    for secret in ("pass-of-a-url", "a-token-by-its-name", "a-known"):
        assert secret not in text
    assert all(line.isprintable() and len(line) < 400 for line in lines)
    assert all(str(fields["what"]).isprintable() for _, fields in events(caplog))
