"""Schemas of custom state are found in the checkpoint that was restored, not in the one they were written in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate.core.errors import TidegateError
from tidegate.savepoints.operator_metadata import moved_to, names_schemas, state_variables

NEW = Path("/new/job/queries/q/g2/spark")


def metadata(*paths: str) -> bytes:
    stores = [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": list(paths)}]
    return b"v2\n" + json.dumps({"operatorInfo": {"operatorId": 0}, "stateStoreInfo": stores}).encode()


def paths_in(data: bytes) -> list[str]:
    return json.loads(data.partition(b"\n")[2])["stateStoreInfo"][0]["stateSchemaFilePaths"]


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_every_path_of_a_schema_leads_into_the_new_checkpoint(scheme: str):
    below = [f"state/3/_stateSchema/default/{epoch}_0a1b" for epoch in (0, 7)]
    data = metadata(*(f"{scheme}/old/state/9/spark/{name}" for name in below))
    moved = moved_to(data, NEW, "here")
    assert paths_in(moved) == [f"{scheme}{NEW}/{name}" for name in below]
    assert moved.startswith(b"v2\n")
    assert paths_in(moved_to(moved, Path("/third"), "here")) == [f"{scheme}/third/{name}" for name in below]


def test_a_path_of_another_storage_leads_into_the_new_checkpoint():
    data = metadata("hdfs://host/old/state/0/_stateSchema/default/0")
    assert paths_in(moved_to(data, NEW, "here")) == [f"{NEW}/state/0/_stateSchema/default/0"]


@pytest.mark.parametrize(
    "path",
    [
        "state/0/_stateSchema/default/0",
        "file:/old/state/0/_stateSchema/../../../../other",
    ],
)
def test_a_path_that_is_not_understood_is_refused(path: str):
    with pytest.raises(TidegateError) as caught:
        moved_to(metadata(path), NEW, "here")
    assert caught.value.code == "TG-SAVEPOINT-UNSAFE"


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"v3\n{}", "TG-RECORD-NEWER"), (b"v2\n{", "TG-RECORD-CORRUPT"), (b'v2\n"\xe6"', "TG-RECORD-CORRUPT")],
)
def test_a_later_version_and_a_torn_one_are_refused(data: bytes, code: str):
    with pytest.raises(TidegateError) as caught:
        moved_to(data, NEW, "here")
    assert caught.value.code == code


def test_only_the_newer_metadata_and_its_checksums_are_meant():
    assert names_schemas("state/0/_metadata/v2/0")
    assert names_schemas("state/12/_metadata/v2/.7.crc")
    assert not names_schemas("state/0/_metadata/metadata")
    assert not names_schemas("state/0/_stateSchema/default/0_x")


def test_the_variables_of_custom_state_are_named():
    named = [{"stateName": name, "stateVariableType": "ValueState", "ttlEnabled": False} for name in ("seen", "last")]
    properties = json.dumps({"timeMode": "None", "outputMode": "Update", "stateVariables": named})
    data = b"v2\n" + json.dumps({"operatorPropertiesJson": properties}).encode()
    assert state_variables(data, "here") == ["seen", "last"]
    with pytest.raises(TidegateError) as caught:
        state_variables(b"v2\n{}", "here")
    assert caught.value.code == "TG-RECORD-CORRUPT"
