"""`tidegate.toml`, what `-D` hands on, and Flink's keys and values: which place wins, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.settings.config import SETTINGS
from tidegate.settings.found import load_settings
from tidegate.settings.kinds import Backend, RestartStrategy, Retention
from tidegate.settings.reading import read_settings

TEXT = """
parallelism = 3
state.backend = "hashmap"
[checkpointing]
interval = "3s"
retained = 4
[job.words.checkpointing]
interval = "5s"
[job.other]
parallelism = 9
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, without a file of settings yet."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str | bytes, name: str = "tidegate.toml") -> Path:
    path = Path(name)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(text: str | bytes, **environment: str) -> TidegateError:
    write(text)
    with pytest.raises(TidegateError) as caught:
        load_settings({}, environment=environment)
    return caught.value


@pytest.mark.usefixtures("here")
def test_the_file_of_the_current_folder_is_read_and_a_job_may_have_a_table_of_its_own() -> None:
    write(TEXT)
    settings = load_settings({}, environment={})
    assert (settings.parallelism, settings.checkpointing_interval, settings.checkpointing_retained) == (3, 3.0, 4)
    assert settings.state_backend is Backend.HASHMAP
    assert str(settings.origins["checkpointing.interval"]) == "tidegate.toml: checkpointing.interval"
    words = load_settings({}, job="words", environment={})
    assert (words.parallelism, words.checkpointing_interval) == (3, 5.0)
    assert str(words.origins["checkpointing.interval"]) == "tidegate.toml: job.words.checkpointing.interval"


@pytest.mark.usefixtures("here")
def test_program_file_environment_and_override_win_in_rising_order() -> None:
    write(TEXT)
    code = {"checkpointing_interval": "1s", "stop_timeout": "1s"}
    environment = {"TIDEGATE_CHECKPOINTING_INTERVAL": "7s"}
    handed_on = {**environment, "TIDEGATE_OVERRIDES": json.dumps(["checkpointing.interval=8s"])}

    def interval(places: dict[str, str], *overrides: str) -> float:
        return load_settings(code, job="words", environment=places, overrides=overrides).checkpointing_interval

    assert load_settings(code, environment={}).stop_timeout == 1.0
    assert interval({}) == 5.0
    assert interval(environment) == 7.0
    assert interval(handed_on) == 8.0
    assert interval(handed_on, "checkpointing.interval=9s") == 9.0


@pytest.mark.usefixtures("here")
def test_another_file_may_be_named_and_then_has_to_be_there() -> None:
    write(TEXT)
    write("parallelism = 5", "other.toml")
    assert load_settings({}, environment={"TIDEGATE_CONFIG": "other.toml"}).parallelism == 5
    assert load_settings({}, environment={"TIDEGATE_CONFIG": ""}).parallelism is None
    with pytest.raises(TidegateError) as caught:
        load_settings({}, environment={"TIDEGATE_CONFIG": "nowhere.toml"})
    assert (caught.value.code, caught.value.where) == (Code.SETTINGS_FILE.label, "nowhere.toml")


def test_without_a_file_everything_is_as_it_was(here: Path) -> None:
    assert load_settings({}, environment={}) == read_settings({}, {})
    (here / "tidegate.toml").mkdir()
    with pytest.raises(TidegateError) as caught:
        load_settings({}, environment={})
    assert caught.value.code == Code.SETTINGS_FILE.label


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("text", ["parallelism = ", b"\xff\xfe", "a = 1\na = 2"], ids=["cut", "no text", "twice"])
def test_what_is_no_toml_is_refused_with_its_file(text: str | bytes) -> None:
    error = refused(text)
    assert (error.code, error.where) == (Code.SETTINGS_FILE.label, "tidegate.toml")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "text",
    ["job = 1", "[[checkpointing]]\ninterval = 1", "[checkpointing.interval]\nleast = 1", "jobs.words.parallelism = 1"],
)
def test_a_key_of_the_file_that_is_no_setting_is_refused(text: str) -> None:
    assert refused(text).code == Code.SETTING_UNKNOWN.label


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "text", ["checkpointing.interval = 10:00:00", "parallelism = true", "state.changelog = 1", "parallelism = [1]"]
)
def test_a_value_of_the_file_that_does_not_fit_is_refused(text: str) -> None:
    assert refused(text).code == Code.SETTING_VALUE.label


@pytest.mark.usefixtures("here")
def test_every_place_is_heard_before_anything_is_refused() -> None:
    error = refused(
        "parallelism = 0\nunknown = 1",
        TIDEGATE_STOP_TIMEOUT="soon",
        TIDEGATE_OVERRIDES='["state.backend=paper", "checkpointing.aligned_timeout=1s"]',
    )
    assert [each.code for each in error.violations] == [
        Code.SETTING_VALUE.label,
        Code.SETTING_UNKNOWN.label,
        Code.SETTING_VALUE.label,
        Code.SETTING_VALUE.label,
        Code.SETTINGS_CLASH.label,
    ]


@pytest.mark.parametrize("text", ["{", "{}", '"x"', "[1]", "secret"])
def test_overrides_that_are_no_list_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(TidegateError) as caught:
        read_settings({}, {"TIDEGATE_OVERRIDES": text})
    assert caught.value.where == "environment: TIDEGATE_OVERRIDES"
    assert "secret" not in str(caught.value)


FLINK = """
parallelism.default = 4
[execution.checkpointing]
interval = "10 min"
mode = "EXACTLY_ONCE"
timeout = "30 seconds"
min-pause = "500 ms"
externalized-checkpoint-retention = "DELETE_ON_CANCELLATION"
checkpoints-after-tasks-finish.enabled = false
[state]
"backend.type" = "hashmap"
"checkpoints.num-retained" = 7
[restart-strategy]
type = "exponentialdelay"
exponential-delay.max-backoff = "2 m"
exponential-delay.attempts-before-reset-backoff = 12
"""


@pytest.mark.usefixtures("here")
def test_the_settings_of_a_flink_job_are_understood() -> None:
    write(FLINK)
    settings = load_settings({}, environment={})
    assert settings.parallelism == 4
    assert (settings.checkpointing_interval, settings.checkpointing_timeout) == (600.0, 30.0)
    assert (settings.checkpointing_mode, settings.checkpointing_min_pause) == (Level.EXACTLY_ONCE, 0.5)
    assert settings.checkpointing_retention is Retention.DELETE
    assert settings.checkpointing_after_tasks_finish is False
    assert (settings.state_backend, settings.checkpointing_retained) == (Backend.HASHMAP, 7)
    assert settings.restart_strategy is RestartStrategy.EXPONENTIAL_DELAY
    assert (settings.restart_exponential_max, settings.restart_exponential_attempts) == (120.0, 12)


@pytest.mark.parametrize(
    ("key", "value", "attribute", "understood"),
    [
        ("state.backend", "filesystem", "state_backend", Backend.HASHMAP),
        ("state.backend.type", "EmbeddedRocksDBStateBackend", "state_backend", Backend.ROCKSDB),
        (
            "state.backend",
            "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory",
            "state_backend",
            Backend.ROCKSDB,
        ),
        (
            "state.backend",
            "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory",
            "state_backend",
            Backend.HASHMAP,
        ),
        ("checkpointing.retention", "RETAIN_ON_CANCELLATION", "checkpointing_retention", Retention.RETAIN),
        ("restart-strategy", "fixeddelay", "restart_strategy", RestartStrategy.FIXED_DELAY),
        ("restart-strategy.type", "failure-rate", "restart_strategy", RestartStrategy.FAILURE_RATE),
        ("restart-strategy.type", "disable", "restart_strategy", RestartStrategy.NONE),
        ("execution.checkpointing.mode", "AT_LEAST_ONCE", "checkpointing_mode", Level.AT_LEAST_ONCE),
    ],
)
def test_values_of_flink(key: str, value: str, attribute: str, understood: object) -> None:
    assert getattr(read_settings({}, {}, [f"{key}={value}"]), attribute) is understood


@pytest.mark.parametrize("value", ["forst", "org.example.MyStateBackendFactory", "rocksdb2", ""])
def test_another_backend_of_flink_is_refused(value: str) -> None:
    with pytest.raises(TidegateError) as caught:
        read_settings({}, {}, [f"state.backend.type={value}"])
    assert caught.value.expected == "state.backend = one of hashmap, rocksdb"


def test_a_key_of_flink_that_has_no_setting_here_gets_an_answer() -> None:
    with pytest.raises(TidegateError) as caught:
        read_settings({"state.backend.local-recovery": True}, {})
    assert caught.value.next_step == "leave it out: state is restored from checkpointing.dir"


@pytest.mark.parametrize("key", ["execution.checkpointing.storage", "state.checkpoint-storage"])
def test_checkpoints_in_files_are_accepted_and_checkpoints_in_memory_are_refused(key: str) -> None:
    assert read_settings({}, {}, [f"{key}=filesystem"]) == read_settings({}, {})
    with pytest.raises(TidegateError) as caught:
        read_settings({}, {}, [f"{key}=jobmanager"])
    assert caught.value.code == Code.SETTING_VALUE.label
    assert caught.value.expected == f"{key} = filesystem: checkpoints are always files, below checkpointing.dir"
    assert caught.value.next_step.endswith(
        "checkpoints in the memory of a process (jobmanager) have no counterpart here"
    )


def test_no_two_settings_share_a_name() -> None:
    names = [name for setting in SETTINGS.values() for name in {setting.name, *setting.flink}]
    folded = [name.lower().replace("-", "_").replace(".", "_") for name in names]
    assert len(set(folded)) == len(folded) - 1, "only `state.backend` is called alike here and in Flink 1.x"


def test_the_login_of_a_url_is_never_shown() -> None:
    with pytest.raises(TidegateError) as caught:
        read_settings({}, {}, ["checkpointing.dir=s3://key:hunter2@bucket/x"])
    assert "hunter2" not in str(caught.value)
    assert "s3://***@bucket/x" in caught.value.found
