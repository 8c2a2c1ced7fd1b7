"""`tidegate config`: values with their places, rules, the reference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli import main
from tidegate.core.errors import TidegateError
from tidegate.settings.config import SETTINGS


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(main.commands, ["config", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def shown(*arguments: str) -> dict[str, list[str]]:
    """By setting, the words of its line."""
    return {line.split()[0]: line.split()[1:] for line in invoke("show", *arguments).splitlines()}


def test_show_tells_each_value_and_where_it_came_from(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "tidegate.toml").write_text("parallelism = 3\n[job.words]\nstop_timeout = '7s'\n")
    monkeypatch.setenv("TIDEGATE_STATE_BACKEND", "hashmap")
    lines = shown("-D", "checkpointing.interval=2s", "-Dcheckpointing.retained=4", "--job", "words")
    assert list(lines) == [setting.name for setting in SETTINGS.values()]
    assert lines["parallelism"] == ["3", "tidegate.toml:", "parallelism"]
    assert lines["stop_timeout"] == ["7s", "tidegate.toml:", "job.words.stop_timeout"]
    assert lines["state.backend"] == ["hashmap", "environment:", "TIDEGATE_STATE_BACKEND"]
    assert lines["checkpointing.interval"] == ["2s", "-D:", "checkpointing.interval"]
    assert lines["checkpointing.retained"] == ["4", "-D:", "checkpointing.retained"]
    assert lines["savepoints.dir"] == ["-", "default"]


def test_show_for_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_RESTART_FIXED_DELAY_DELAY", "2s")
    told = json.loads(invoke("show", "--json"))
    rows = {row["name"]: row for row in told["settings"]}
    assert rows["restart.fixed_delay.delay"]["origin"] == "environment: TIDEGATE_RESTART_FIXED_DELAY_DELAY"
    assert rows["restart.fixed_delay.delay"]["value"] == "2s"
    assert "acts only with restart.strategy = fixed-delay" in told["notes"][0]


def test_show_refuses_what_a_job_would_be_refused_for() -> None:
    arguments = ["config", "show", "-D", "checkpointing.timeout=0", "-D", "checkpointing.aligned_timeout=1s"]
    result = CliRunner().invoke(main.commands, arguments)
    assert isinstance(result.exception, TidegateError)
    assert len(result.exception.violations) == 2


def test_docs_names_every_setting_and_every_key_of_flink() -> None:
    printed = invoke("docs")
    for setting in SETTINGS.values():
        assert f"| `{setting.name}` |" in printed
        assert all(f"`{key}`" in printed for key in setting.flink)
    assert "checkpointing.unaligned only with checkpointing.mode = exactly-once" in printed
    assert [each["name"] for each in json.loads(invoke("docs", "--json"))] == [each.name for each in SETTINGS.values()]
