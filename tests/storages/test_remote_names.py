"""Names of files on HDFS and S3, read by a real job under a locale that knows ASCII only."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server
from tests.support.today import turn
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

NAMES = (
    *("\N{EURO SIGN} \N{WATER WAVE}.json", "e\u0301.json", "per%20cent.json", "que?ry.json", "ha#sh.json"),
    *("[ab]{c}*.json", "new\nline.json", "+&;,.json", "quo\"te'.json", "~.json", " blanks "),
)


@turn(0, of=3)
def test_a_job_reads_files_of_any_name_from_hdfs_where_the_locale_is_c(hdfs: HdfsServer, tmp_path: Path) -> None:
    all_are_read(tmp_path, Folder.of(f"{hdfs.uri}/{tmp_path.name}/in"), NAMES)


@pytest.mark.more
def test_a_job_reads_files_of_any_name_from_s3_where_the_locale_is_c(s3: S3Server, tmp_path: Path) -> None:
    all_are_read(tmp_path, s3.folder() / "in", (*NAMES, "at 12:30.json"))


def all_are_read(folder: Path, files: Folder, names: tuple[str, ...]) -> None:
    for number, name in enumerate(names):
        open_storage(files).replace(name, json.dumps({"number": number}).encode())
    command = [
        sys.executable,
        "-m",
        "tests.storages.names_program",
        str(folder),
        str(files),
        f"{files.parent}/checkpoints",
    ]
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    with closing(sqlite3.connect(folder / "out.db")) as table:
        assert sorted(table.execute("select number from numbers")) == [(number,) for number in range(len(names))]
