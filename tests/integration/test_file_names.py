"""Names of files that mean something elsewhere: in URIs, patterns, shells, or to nobody."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.integration.place import Place, error_of, run
from tidegate import FileSource, Job, SQLiteSink

NAMES = (
    *("a b.json", " first.json", "last ", "per%20cent.json", "100%.json", "ha#sh.json", "que?ry.json"),
    *("new\nline.json", "tab\t.json", "[ab].json", "{a,b}.json", "st*r.json", "back\\slash.json", "quo\"te'.json"),
    *("a=b.json", "~.json", "€.json", "\N{WATER WAVE}.json", "e\u0301.json", "+&;,.json", "\x01.json", "\u2028.json"),
)
FOLDERS = ("of %41 [x] {y}", "a:b #?")


def names_job(place: Place, folder: Path, *, recursive: bool = True) -> Job:
    job = place.job()
    source = FileSource(str(folder), format="json", schema="number long", recursive=recursive, settle=0)
    rows = job.source("names", source)
    job.query("query", rows, sinks=[SQLiteSink("table", place.folder / "out.db", table="names")])
    return job


def test_a_file_of_any_name_is_read_once_also_when_its_folder_moves(place: Place):
    names = [*NAMES, *(f"{folder}/{name}" for folder in FOLDERS for name in NAMES[:8])]
    for number, name in enumerate(names):
        (place.input / name).parent.mkdir(exist_ok=True)
        (place.input / name).write_text(json.dumps({"number": number}))
    run(names_job(place, place.input))
    assert place.table("names") == [(number,) for number in range(len(names))]
    run(names_job(place, place.input.rename(place.folder / "in %20 [2]")))
    assert len(place.table("names")) == len(names)


def test_a_file_whose_name_looks_like_a_pattern_is_read_once_and_repeats_no_other(place: Place):
    """Spark takes each such path for all paths of an epoch, where a source does not read all subfolders."""
    for number, name in enumerate(NAMES):
        (place.input / name).write_text(json.dumps({"number": number}))
    run(names_job(place, place.input, recursive=False))
    assert place.table("names") == [(number,) for number in range(len(NAMES))]


@pytest.mark.parametrize("name", [b"caf\xe9.json", b"at 12:30.json"])
def test_a_name_that_spark_cannot_open_is_refused(place: Place, name: bytes):
    (place.input / "0.json").write_text('{"number": 0}')
    path = Path(os.fsdecode(os.fsencode(place.input) + b"/" + name))
    path.write_text('{"number": 1}')
    error = error_of(lambda: run(names_job(place, place.input)))
    assert (error.code, "rename" in error.next_step) == ("TG-FILE-NAME", True)
    path.rename(place.input / "café.json")
    run(names_job(place, place.input))
    assert place.table("names") == [(0,), (1,)]
