"""`tidegate config import`: what Flink's configuration sets here, what is left out, and that no secret is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate.cli import main
from tidegate.core.errors import TidegateError
from tidegate.settings.config import SETTINGS
from tidegate.settings.flink import ANSWERS, FAMILIES
from tidegate.settings.flink_import import import_from_flink
from tidegate.settings.found import load_settings

LINES = """\
# the classic file
jobmanager.rpc.address: localhost
execution.checkpointing.interval: 60000
execution.checkpointing.mode: AT_LEAST_ONCE   # one word
state.backend: filesystem
state.checkpoints.dir: file:///data/checkpoints
state.savepoints.dir: hdfs://namenode:8020/savepoints
execution.checkpointing.timeout: soon
restart-strategy: fixed-delay
restart-strategy.fixed-delay.attempts: 3
restart-strategy.fixed-delay.delay: 10 s
s3.secret-key: hunter2: the second
env.java.opts: -Dkey: value
"""

NESTED = """\
execution:
  checkpointing:
    interval: 3min
    dir: /data/checkpoints
state.checkpoints.dir: /data/older
restart-strategy:
  type: off
state:
  backend: {type: rocksdb, incremental: true}
  checkpoint-storage: jobmanager
security.ssl.rest.key-password: hunter2
env:
  path: [one, two]
"""


def taken(text: dict[str, str]) -> dict[str, str]:
    return {each.name: each.text for each in import_from_flink(text).taken}


def left_out(text: dict[str, str]) -> dict[str, str]:
    return {each.key: each.why for each in import_from_flink(text).left_out}


def imported(folder: Path, name: str, text: str, *more: str) -> tuple[int, str, str]:
    (folder / name).write_text(text, encoding="utf-8")
    done = CliRunner().invoke(main.commands, ["config", "import", name, *more])
    if isinstance(done.exception, TidegateError):
        return 1, "", str(done.exception)
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_classic_file_becomes_settings_with_flinks_units(here: Path) -> None:
    code, out, err = imported(here, "flink-conf.yaml", LINES)
    assert (code, err) == (0, "")
    settings = load_settings({}, environment={})
    assert settings.checkpointing_interval == 60
    assert settings.checkpointing_mode.value == "at-least-once"
    assert settings.state_backend.value == "hashmap"
    assert settings.checkpointing_dir == "/data/checkpoints"
    assert settings.savepoints_dir == "hdfs://namenode:8020/savepoints"
    assert (settings.restart_strategy.value, settings.restart_fixed_delay_attempts) == ("fixed-delay", 3)
    assert settings.restart_fixed_delay_delay == 10
    lines = [line for line in out.splitlines() if line.startswith("left out: ")]
    assert [line.split(": ")[1] for line in lines] == [
        "jobmanager.rpc.address",
        "execution.checkpointing.timeout",
        "s3.secret-key",
        "env.java.opts",
    ]
    assert "takes a duration" in lines[1]
    assert "hunter2" not in out + (here / "tidegate.toml").read_text()


def test_the_newer_file_may_nest_its_keys(here: Path) -> None:
    code, out, _ = imported(here, "config.yaml", NESTED, "--json")
    found = json.loads(out)
    assert (code, found["file"]) == (0, "tidegate.toml")
    assert {each["name"]: each["value"] for each in found["settings"]} == {
        "checkpointing.dir": "/data/checkpoints",
        "checkpointing.interval": "3min",
        "restart.strategy": "none",
        "state.backend": "rocksdb",
        "state.incremental": "true",
    }
    why = {each["key"]: each["why"] for each in found["left_out"]}
    assert list(why) == [
        "state.checkpoints.dir",
        "state.checkpoint-storage",
        "security.ssl.rest.key-password",
        "env.path",
    ]
    assert why["state.checkpoints.dir"] == "execution.checkpointing.dir sets checkpointing.dir, as in Flink"
    assert "memory" in why["state.checkpoint-storage"]
    assert "hunter2" not in out


def test_the_standard_output_has_the_file_alone(here: Path) -> None:
    code, out, err = imported(here, "flink-conf.yaml", LINES, "-o", "-")
    assert code == 0
    assert not (here / "tidegate.toml").exists()
    (here / "tidegate.toml").write_text(out)
    assert load_settings({}, environment={}).checkpointing_interval == 60
    assert "left out: jobmanager.rpc.address: " in err


def test_a_file_that_is_there_is_overwritten_by_force_alone(here: Path) -> None:
    (here / "tidegate.toml").write_text("parallelism = 3\n")
    code, _, err = imported(here, "flink-conf.yaml", LINES)
    assert code != 0
    assert "TG-SETTINGS-FILE" in err
    assert "--force" in err
    assert (here / "tidegate.toml").read_text() == "parallelism = 3\n"
    assert imported(here, "flink-conf.yaml", LINES, "--force")[0] == 0
    assert "parallelism" not in (here / "tidegate.toml").read_text()


@pytest.mark.parametrize("text", ["password: [hunter2", "hunter2", "- hunter2", "a: b: hunter2"])
def test_a_file_that_is_no_yaml_is_refused_without_a_word_of_it(text: str, here: Path) -> None:
    _, _, err = imported(here, "config.yaml", text)
    assert "TG-SETTINGS-FILE" in err
    assert "hunter2" not in err


def test_every_key_of_flink_that_a_setting_has_is_taken_with_its_default() -> None:
    for setting in SETTINGS.values():
        for key in setting.flink:
            written = setting.kind.write(setting.kind.read(setting.default))
            if written not in ("", "0"):
                assert taken({key: written}) == {setting.name: written}, key


def test_every_other_key_is_left_out_with_the_answer_of_the_one_table() -> None:
    for key, told in ANSWERS.items():
        assert left_out({key: "filesystem"})[key] in told
    for beginning, told in FAMILIES.items():
        assert left_out({f"{beginning}x": "1"})[f"{beginning}x"] in told
    assert left_out({"some.thing": "1"}) == {"some.thing": "no setting here has this meaning"}


def test_an_interval_of_zero_turns_nothing_off() -> None:
    assert "always on" in left_out({"execution.checkpointing.interval": "0"})["execution.checkpointing.interval"]


@pytest.mark.parametrize(
    ("given", "dropped"),
    [
        ({"state.backend.type": "hashmap", "state.backend.incremental": "false"}, "state.backend.incremental"),
        (
            {"execution.checkpointing.unaligned.enabled": "true", "execution.checkpointing.mode": "AT_LEAST_ONCE"},
            "execution.checkpointing.unaligned.enabled",
        ),
        (
            {"execution.checkpointing.aligned-checkpoint-timeout": "30s"},
            "execution.checkpointing.aligned-checkpoint-timeout",
        ),
    ],
)
def test_what_a_rule_between_settings_refuses_is_left_out(given: dict[str, str], dropped: str) -> None:
    assert list(left_out(given)) == [dropped]
    assert len(taken(given)) == len(given) - 1
