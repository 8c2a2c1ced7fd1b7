"""Which packages and files an archive for executors contains."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.submit import packing
from tidegate.submit.packing import pack, packages_of


def test_an_archive_has_what_tasks_import_and_not_what_the_cluster_has() -> None:
    names = {each.name.lower() for each in packages_of(["tidegate"])}
    assert {"tidegate", "msgspec", "pyarrow", "pandas", "numpy", "boto3", "botocore", "confluent-kafka"} <= names
    assert names.isdisjoint({"pyspark", "py4j", "pytest"})


def test_the_packed_python_finds_its_packages_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one small package, so that the archive is small."""
    found = [each for each in packages_of(["tidegate"]) if each.name in {"tidegate", "msgspec"}]
    monkeypatch.setattr(packing, "packages_of", lambda _: found)
    packed = pack(tmp_path / "environment.tar.gz", [])
    assert [each.name for each in tmp_path.iterdir()] == ["environment.tar.gz"], "nothing else is left"
    with tarfile.open(packed.file) as archive:
        assert not any(name.endswith(".pyc") for name in archive.getnames())
        archive.extractall(tmp_path / "there", filter="data")
    text = "import tidegate, msgspec; print(tidegate.__file__, tidegate.__version__, msgspec.__file__)"
    environment = {"TIDEGATE_PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}
    command = [tmp_path / "there" / "bin" / "python", "-S", "-c", text]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert said[0] == str(tmp_path / "there" / "lib" / "tidegate" / "__init__.py")
    assert said[1] == packed.packages["tidegate"]
    assert said[2] == str(tmp_path / "there" / "lib" / "msgspec" / "__init__.py")


def test_a_package_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(TidegateError, match="no-such-package") as caught:
        pack(tmp_path / "environment.tar.gz", ["no_such_package"])
    assert caught.value.catalogue_entry is Code.OPTION_UNKNOWN
    assert list(tmp_path.iterdir()) == []
