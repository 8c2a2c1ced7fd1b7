"""One set of refusals for every format of JSON: torn, of another format, newer, altered, with other fields."""

from __future__ import annotations

import msgspec
import pytest

from tidegate.core.json_formats import Flaw, HeaderLine, ListFormat, ObjectFormat, RecordFormat, Unreadable, parsed


class Note(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str
    format: int = 2


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    version: int = 2


OBJECT = ObjectFormat(Note, "a note", 2)
ASKED = ObjectFormat(Asked, "a question", 2, field="version")
RECORD = RecordFormat(Note, HeaderLine("note", 2))
LIST = ListFormat(Note, "notes", 2)
NOTE = Note(text="sea")
IN_A_RECORD = RECORD.encode(NOTE)
IN_A_LIST = LIST.encode([NOTE, Note(text="tide")])
DEEP = b'{"format":2,"text":' + b"[" * 200_000


def changed(data: bytes, old: bytes, new: bytes) -> bytes:
    """The same with another first line, and a checksum that fits the rest."""
    assert old in data
    return data.replace(old, new, 1)


def record_of(body: bytes) -> bytes:
    return RECORD.header.above(body) + body


@pytest.mark.parametrize(
    ("form", "data", "flaw"),
    [
        (OBJECT, b"", Flaw.NOT_JSON),
        (OBJECT, b'{"format":2,"text":"se', Flaw.NOT_JSON),
        (OBJECT, b'{"format":2,"text":"\xff"}', Flaw.NOT_JSON),
        (OBJECT, DEEP, Flaw.NOT_JSON),
        (OBJECT, b"[]", Flaw.FIELDS),
        (OBJECT, b"{}", Flaw.FIELDS),
        (OBJECT, b'{"format":"2","text":"sea"}', Flaw.FIELDS),
        (OBJECT, b'{"format":true,"text":"sea"}', Flaw.FIELDS),
        (OBJECT, b'{"format":2}', Flaw.FIELDS),
        (OBJECT, b'{"format":2,"text":3}', Flaw.FIELDS),
        (OBJECT, b'{"format":1,"text":"sea","more":1}', Flaw.FIELDS),
        (OBJECT, b'{"format":0,"text":"sea"}', Flaw.OTHER_FORMAT),
        (OBJECT, b'{"format":3,"words":"sea"}', Flaw.NEWER),
        (ASKED, b'{"format":2,"text":"sea"}', Flaw.FIELDS),
        (ASKED, b'{"version":3}', Flaw.NEWER),
        (RECORD, b"", Flaw.OTHER_FORMAT),
        (RECORD, IN_A_RECORD[:20], Flaw.OTHER_FORMAT),
        (RECORD, changed(IN_A_RECORD, b"tidegate", b"floodgate"), Flaw.OTHER_FORMAT),
        (RECORD, changed(IN_A_RECORD, b"note 2", b"note 02"), Flaw.OTHER_FORMAT),
        (RECORD, changed(IN_A_RECORD, b"note 2", b"post 2"), Flaw.OTHER_FORMAT),
        (RECORD, changed(IN_A_RECORD, b"note 2", b"post 3"), Flaw.NEWER),
        (RECORD, changed(IN_A_RECORD, b"sea", b"see"), Flaw.ALTERED),
        (RECORD, IN_A_RECORD[:-1], Flaw.ALTERED),
        (RECORD, record_of(b"{"), Flaw.NOT_JSON),
        (RECORD, record_of(b'{"format":2}'), Flaw.FIELDS),
        (LIST, b"", Flaw.OTHER_FORMAT),
        (LIST, b'{"tidegate":"notes","format":2}', Flaw.OTHER_FORMAT),
        (LIST, changed(IN_A_LIST, b'"notes"', b'"posts"'), Flaw.OTHER_FORMAT),
        (LIST, changed(IN_A_LIST, b'"format":2', b'"format":3'), Flaw.NEWER),
        (LIST, IN_A_LIST[:-1], Flaw.ALTERED),
        (LIST, ListFormat(Asked, "notes", 2).encode([Asked(text="sea")]), Flaw.FIELDS),
    ],
)
def test_each_flaw_is_told_from_the_others(form: ObjectFormat[Note], data: bytes, flaw: Flaw) -> None:
    with pytest.raises(Unreadable) as caught:
        form.decode(data)
    assert caught.value.flaw is flaw
    assert caught.value.expected
    assert caught.value.found == str(caught.value) != ""


def test_what_was_written_is_read_also_in_an_older_version() -> None:
    assert OBJECT.decode(OBJECT.encode(NOTE)) == RECORD.decode(IN_A_RECORD) == NOTE
    assert (LIST.decode(IN_A_LIST), LIST.decode(LIST.encode([]))) == ([NOTE, Note(text="tide")], [])
    assert OBJECT.decode(b'{"format":1,"text":"sea"}') == Note(text="sea", format=1)
    assert RECORD.decode(changed(IN_A_RECORD, b"note 2", b"note 1")) == NOTE


def test_any_json_is_an_object_and_a_text_with_half_a_character_is_no_json() -> None:
    assert parsed(b'[1, {"a": null}]', object) == [1, {"a": None}]
    with pytest.raises(Unreadable):
        parsed('"\ud800"', object)


def test_an_error_has_the_place_and_a_code_by_the_flaw() -> None:
    newer, torn = Unreadable(Flaw.NEWER, "e", "f"), Unreadable(Flaw.ALTERED, "e", "f")
    assert (newer.error("here", "copy it").code, torn.error("here", "copy it").code) == (
        "TG-RECORD-NEWER",
        "TG-RECORD-CORRUPT",
    )
    assert torn.error("here", "copy it").next_step == "copy it"
    assert newer.error("here", "copy it").next_step != "copy it", "a copy of the same version does not help"
    assert newer.error("here", "copy it", newer_step="wait").next_step == "wait"
    assert (torn.error("here", "").expected, torn.error("here", "").found, torn.error("here", "").where) == (
        "e",
        "f",
        "here",
    )
