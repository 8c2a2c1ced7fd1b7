"""The desk: one id is one request, what cannot be read is refused, and answers stay few."""

from __future__ import annotations

import os
import threading
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from tests.support.rights import modes_count
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.operate.beat import Incarnation
from tidegate.operate.control import ANSWERS_KEPT, REQUEST_BYTES_AT_MOST, VERSION, Answer, Desk, Kind, Outcome, Request

NOW = 1_700_000_000.0
DRIVER = Incarnation(host="here", process=7, started_at=NOW)


def request(name: str = "one", kind: Kind = Kind.CHECKPOINT, at: float = NOW) -> Request:
    return Request(id=name, kind=kind, to=DRIVER, asked_at=at, asked_by="a test")


def answer(name: str = "one", outcome: Outcome = Outcome.DONE, kind: Kind = Kind.CHECKPOINT) -> Answer:
    return Answer(id=name, kind=kind, outcome=outcome, detail="", at=NOW)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_what_is_asked_is_found_by_the_driver_and_its_answer_by_whoever_asked(desk: Desk, tmp_path: Path):
    desk.ask(request("later", at=NOW + 1))
    desk.ask(request("sooner", Kind.STOP))
    other = Desk(tmp_path)
    assert [each.id for each in other.open_requests(NOW)] == ["sooner", "later"]
    other.answer(answer("sooner", kind=Kind.STOP))
    assert [each.id for each in other.open_requests(NOW)] == ["later"]
    assert desk.answer_to("sooner") == answer("sooner", kind=Kind.STOP)
    assert desk.answer_to("later") is None


def test_the_same_id_twice_is_one_request_and_one_answer(desk: Desk):
    first = desk.ask(request(at=NOW))
    assert desk.ask(request(at=NOW + 60)) == first
    assert desk.open_requests(NOW) == [first]
    desk.answer(answer())
    desk.ask(request(at=NOW + 120))
    assert desk.open_requests(NOW) == []
    assert desk.answer_to("one") == answer()


@pytest.mark.parametrize("answered", [False, True])
def test_an_id_that_stands_for_something_else_is_refused(desk: Desk, answered: bool):
    desk.ask(request(kind=Kind.STOP))
    if answered:
        desk.answer(answer(kind=Kind.STOP))
    with pytest.raises(TidegateError, match=r"TG-REQUEST-REFUSED(.|\n)*belongs to `stop`"):
        desk.ask(request(kind=Kind.CANCEL))


@pytest.mark.parametrize("answered", [False, True])
def test_an_id_that_stands_for_a_savepoint_in_another_folder_is_refused(desk: Desk, answered: bool):
    desk.ask(savepoint("/here"))
    if answered:
        desk.answer(msgspec.structs.replace(answer(kind=Kind.SAVEPOINT), into="/here"))
    for into in ("/there", None):
        with pytest.raises(TidegateError, match=r"TG-REQUEST-REFUSED(.|\n)*belongs to `savepoint` in /here"):
            desk.ask(savepoint(into))


def test_an_id_that_stands_for_a_savepoint_of_another_type_is_refused(desk: Desk):
    desk.ask(savepoint("/here"))
    canonical = msgspec.structs.replace(savepoint("/here"), format=SavepointFormat.CANONICAL)
    with pytest.raises(TidegateError, match=r"TG-REQUEST-REFUSED(.|\n)*belongs to `savepoint` in /here"):
        desk.ask(canonical)
    desk.answer(msgspec.structs.replace(answer(kind=Kind.SAVEPOINT), into="/here"))
    with pytest.raises(TidegateError, match="canonical"):
        desk.ask(canonical)


def savepoint(into: str | None, at: float = NOW) -> Request:
    return Request(id="one", kind=Kind.SAVEPOINT, to=DRIVER, asked_at=at, asked_by="a test", into=into)


@pytest.mark.parametrize("outcome", [each for each in Outcome if each is not Outcome.DONE])
def test_a_savepoint_that_is_not_there_is_asked_for_again_under_its_id(desk: Desk, outcome: Outcome):
    desk.ask(savepoint("/here"))
    desk.answer(msgspec.structs.replace(answer(outcome=outcome, kind=Kind.SAVEPOINT), into="/here"))
    again = desk.ask(savepoint("/here", at=NOW + 60))
    assert desk.open_requests(NOW + 60) == [again]
    assert desk.answer_to("one") is None


@pytest.mark.parametrize("name", ["", "../one", "a/b", "nul\0", ".hidden", "x" * 10_000])
def test_an_id_that_is_no_name_is_refused_and_nothing_is_written(desk: Desk, tmp_path: Path, name: str):
    with pytest.raises(TidegateError, match="TG-REQUEST-REFUSED") as caught:
        desk.ask(request(name))
    assert len(str(caught.value)) < 1_000
    assert list(tmp_path.iterdir()) == []


def test_of_two_answers_at_once_the_first_counts(desk: Desk):
    desk.ask(request())
    assert desk.answer(answer(outcome=Outcome.DONE)).outcome is Outcome.DONE
    assert desk.answer(answer(outcome=Outcome.UNKNOWN)).outcome is Outcome.DONE


def test_many_who_ask_under_one_id_at_once_ask_once(desk: Desk, tmp_path: Path):
    found: list[Request] = []
    askers = [
        threading.Thread(target=lambda at=at: found.append(Desk(tmp_path).ask(request(at=NOW + at)))) for at in range(8)
    ]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(found) == 8
    assert {each.asked_at for each in found} == {desk.open_requests(NOW)[0].asked_at}


def test_a_request_whose_answerer_died_before_removing_it_is_not_done_again(desk: Desk, tmp_path: Path):
    desk.ask(request())
    data = (tmp_path / "control" / "requests" / "one.json").read_bytes()
    desk.answer(answer())
    (tmp_path / "control" / "requests" / "one.json").write_bytes(data)
    assert desk.open_requests(NOW) == []
    assert not (tmp_path / "control" / "requests" / "one.json").exists()


def test_a_request_of_a_newer_version_is_refused_and_not_guessed(desk: Desk, tmp_path: Path):
    desk.ask(request("good"))
    newer = {"version": VERSION + 1, "id": "new", "kind": "checkpoint", "to": {"somewhere": "else"}}
    (tmp_path / "control" / "requests" / "new.json").write_bytes(msgspec.json.encode(newer))
    assert [each.id for each in desk.open_requests(NOW)] == ["good"]
    refused = desk.answer_to("new")
    assert refused is not None
    assert (refused.outcome, f"version {VERSION + 1}" in refused.detail) == (Outcome.REFUSED, True)


def test_an_answer_of_a_newer_version_is_refused_and_not_guessed(desk: Desk, tmp_path: Path):
    desk.answer(answer())
    path = tmp_path / "control" / "answers" / "one.json"
    path.write_bytes(path.read_bytes().replace(f'"version":{VERSION}'.encode(), f'"version":{VERSION + 1}'.encode()))
    with pytest.raises(TidegateError, match="TG-RECORD-NEWER") as caught:
        desk.answer_to("one")
    assert (caught.value.where, caught.value.found) == (str(path), f"format version {VERSION + 1}")


def spoilt(**parts: object) -> bytes:
    """A request that is whole but for these parts."""
    return msgspec.json.encode({**msgspec.to_builtins(request("torn")), **parts})


SPOILT = {
    "empty": b"",
    "torn": b'{"version":1,"id":"to',
    "a list": b"[]",
    "what nobody does": b'{"version":1,"kind":"explode"}',
    "bytes": b"\xff\0",
    "no UTF-8": spoilt().replace(b"a test", b"a t\xffst"),
    "no UTF-8 in a field that nobody knows": b'{"version":1,"\xff":"\xff"}',
    "deep": b'{"version":1,"deep":' + b"[" * 50_000,
    "the id of another": spoilt(id="good"),
    "an id that leads elsewhere": spoilt(id="../../beat"),
    "a folder with NUL": spoilt(into="a\0b"),
    "long": spoilt(asked_by="x" * REQUEST_BYTES_AT_MOST),
}


@pytest.mark.parametrize("data", SPOILT.values(), ids=SPOILT.keys())
def test_a_torn_request_is_refused_set_aside_and_in_nobodys_way(desk: Desk, tmp_path: Path, data: bytes):
    desk.ask(request("good"))
    torn = tmp_path / "control" / "requests" / "torn.json"
    torn.write_bytes(data)
    for _ in range(2):
        assert [each.id for each in desk.open_requests(NOW)] == ["good"]
    refused = desk.answer_to("torn")
    assert refused is not None
    assert (refused.kind, refused.outcome) == (None, Outcome.REFUSED)
    assert (torn.parent / ".aside-torn.json-0").read_bytes() == data


def test_a_hundred_megabytes_are_not_read_to_be_refused(desk: Desk, tmp_path: Path):
    desk.ask(request("good"))
    with (tmp_path / "control" / "requests" / "large.json").open("wb") as file:
        file.truncate(100 << 20)
    tracemalloc.start()
    assert [each.id for each in desk.open_requests(NOW)] == ["good"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    refused = desk.answer_to("large")
    assert refused is not None
    assert (refused.outcome, str(100 << 20) in refused.detail) == (Outcome.REFUSED, True)


@pytest.mark.parametrize("where", ["requests", "answers"])
def test_a_folder_in_the_place_of_a_file_is_in_nobodys_way(desk: Desk, tmp_path: Path, where: str):
    desk.ask(request("good"))
    desk.ask(request("odd"))
    (tmp_path / "control" / "requests" / "odd.json").rename(tmp_path / "kept")
    (tmp_path / "control" / where / "odd.json").mkdir(parents=True)
    if where == "answers":
        (tmp_path / "kept").rename(tmp_path / "control" / "requests" / "odd.json")
    for _ in range(2):
        assert [each.id for each in desk.open_requests(NOW)] == ["good"]
    with pytest.raises(TidegateError, match="TG-STORAGE-UNUSABLE"):
        desk.ask(request("odd"))


def test_a_name_too_long_to_be_set_aside_is_in_nobodys_way(
    desk: Desk, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    desk.ask(request("good"))
    (tmp_path / "control" / "requests" / f"{'x' * 250}.json").write_bytes(b"{}")
    for _ in range(2):
        assert [each.id for each in desk.open_requests(NOW)] == ["good"]
    (told,) = caplog.records
    assert told.getMessage().startswith("skipped the request 'xxx")


def test_a_request_that_may_not_be_read_is_in_nobodys_way(desk: Desk, tmp_path: Path):
    desk.ask(request("good"))
    desk.ask(request("shut"))
    (tmp_path / "control" / "requests" / "shut.json").chmod(0)
    with modes_count():
        assert [each.id for each in desk.open_requests(NOW)] == ["good"]
    (tmp_path / "control" / "requests" / "shut.json").chmod(0o644)
    assert sorted(each.id for each in desk.open_requests(NOW)) == ["good", "shut"], "it is served when it may be"


def test_a_file_whose_name_is_no_id_is_set_aside(desk: Desk, tmp_path: Path):
    desk.ask(request("good"))
    (tmp_path / "control" / "requests" / "not a name.json").write_bytes(b"{}")
    assert [each.id for each in desk.open_requests(NOW)] == ["good"]
    assert not (tmp_path / "control" / "requests" / "not a name.json").exists()


def test_only_the_newest_answers_stay(desk: Desk, tmp_path: Path):
    kept = tmp_path / "control" / "answers"
    for number in range(ANSWERS_KEPT + 20):
        desk.answer(answer(f"n{number}"))
        os.utime(kept / f"n{number}.json", (NOW + number, NOW + number))
    assert sorted(int(path.stem[1:]) for path in kept.iterdir()) == list(range(20, ANSWERS_KEPT + 20))
