"""The contract of a `Storage` as a suite of tests. Needs pytest.

    class TestMyStorage(StorageContract):
        def open(self) -> Storage:
            return MyStorage(self.folder)

The suite tests what tidegate's protocol relies on: a record is readable completely or not at all; if two processes
create the same name, exactly one succeeds; every object on the same place sees all records. It cannot test that a
record survives a power loss: the docstrings of `Storage` say which records must.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from tidegate.storages.check import check_storage
from tidegate.storages.storage import Storage
from tidegate.testing.contract_parts import demand

NAMES = (
    "job.json",
    "queries/words/g1/ledger/prepared/7.1",
    "queries/words/g1/ledger/prepared/10.1",
    "queries/words/g1/spark/offsets/7",
    "checkpoints/3/_metadata.json",
    "locks/holder.json",
    "savepoints/.savepoint-1-claim",
)
"""Names of the kinds that tidegate uses: digits, dots at the begin, folders of one and of many records."""


class StorageContract(ABC):
    """The tests that every `Storage` must pass. Inherit them in a test class named `Test...` that defines `open`."""

    folder: Path
    """An empty folder for each test, for a storage that stores files."""

    races = 20
    """The number of rounds of each test with several writers that begin at the same time."""

    @abstractmethod
    def open(self) -> Storage:
        """Open the storage of this test, which is empty when the test begins.

        Each call returns a new object for the same place, as another process would have.
        """

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    # --- one record ------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", NAMES)
    def test_what_was_put_is_read_wherever_the_place_is_opened(self, name: str) -> None:
        first, second = self.open(), self.open()
        demand(second.read(name) is None, "a record that was never put reads as None")
        demand(first.put_if_absent(name, b"content") is True, "the first put of a name creates it")
        for storage in (first, second, self.open()):
            demand(storage.read(name) == b"content", "every opening reads what was put")
            demand(storage.peek(name) == b"content", "peek gives the same")

    @pytest.mark.parametrize("data", [b"", b"\x00\xff\r\n", bytes(range(256)) * 4096], ids=["empty", "odd", "1 MB"])
    def test_the_content_is_bytes_of_any_kind_and_length(self, data: bytes) -> None:
        storage = self.open()
        storage.put_if_absent("records/put", data)
        storage.replace("records/replaced", data)
        demand(self.open().read("records/put") == data, "a put keeps every byte")
        demand(self.open().read("records/replaced") == data, "a replace keeps every byte")

    def test_a_second_put_changes_nothing(self) -> None:
        self.open().put_if_absent("decided/7", b"first")
        for storage in (self.open(), self.open()):
            demand(storage.put_if_absent("decided/7", b"second") is False, "a put of a name that is there says False")
            demand(storage.put_if_absent("decided/7", b"first") is False, "also where it has the same content")
        demand(self.open().read("decided/7") == b"first", "the content that is there is untouched")

    def test_of_many_puts_at_once_exactly_one_wins_and_its_content_is_there(self) -> None:
        for race in range(self.races):
            writers = [self.open() for _ in range(4)]
            won = at_once([_put(storage, f"race/{race}", b"%d" % n) for n, storage in enumerate(writers)])
            demand(won.count(True) == 1, f"of four puts at once one creates the record, not {won.count(True)}")
            demand(self.open().read(f"race/{race}") == b"%d" % won.index(True), "the content is that of the winner")

    def test_a_replace_needs_no_older_content_and_the_last_one_counts(self) -> None:
        for data in (b"one", b"another, which is longer", b""):
            self.open().replace("ledger/finished_through", data)
            demand(self.open().read("ledger/finished_through") == data, "each opening reads the newest content")

    def test_a_reader_sees_the_old_content_or_the_new_one_and_nothing_between(self) -> None:
        contents = [bytes([65 + number]) * 100_000 for number in range(4)]
        self.open().replace("record", contents[0])
        over = threading.Event()

        def write() -> bool:
            storage = self.open()
            for turn in range(self.races):
                storage.replace("record", contents[turn % len(contents)])
            over.set()
            return True

        def read() -> bool:
            storage, whole = self.open(), True
            while not over.is_set():
                whole = whole and storage.read("record") in contents
            return whole

        demand(all(at_once([write, read, read])), "no reader sees a part of a content, or none")

    def test_a_record_that_was_deleted_is_gone_and_may_come_again(self) -> None:
        storage = self.open()
        storage.put_if_absent("done/7", b"first")
        storage.delete("done/7")
        storage.delete("done/7")
        demand(self.open().read("done/7") is None, "a record that was deleted is gone; a second delete is no error")
        demand(storage.put_if_absent("done/7", b"second") is True, "its name is free again")
        demand(self.open().read("done/7") == b"second", "and has the new content")

    def test_several_records_are_deleted_together(self) -> None:
        storage = self.open()
        names = [f"decided/{number}" for number in range(20)]
        for name in names[:-1]:
            storage.put_if_absent(name, b"")
        storage.delete_all(names[2:])  # the last one is absent
        storage.delete_all([])
        demand(self.open().list("decided") == ["0", "1"], f"these records go: {self.open().list('decided')}")
        demand(storage.put_if_absent("decided/7", b"second") is True, "and their names are free again")

    def test_a_look_tells_size_and_time(self) -> None:
        storage = self.open()
        demand(storage.look("records/7") is None, "there is nothing to see of a record that is absent")
        storage.put_if_absent("records/7", b"seven")
        first = self.open().look("records/7")
        demand(first is not None and first.size_bytes == len(b"seven"), f"a look tells the size: {first}")
        storage.replace("records/7", b"sevenfold")
        second = self.open().look("records/7")
        demand(
            first is not None
            and second is not None
            and second.size_bytes == len(b"sevenfold")
            and second.written_at >= first.written_at,
            f"after a replace it tells the new size and no earlier time: {first}, {second}",
        )

    # --- folders ---------------------------------------------------------------------------------------------

    def test_a_list_has_the_records_of_one_folder_only_in_order(self) -> None:
        storage = self.open()
        for name in ("done/7", "done/10", "done/older/3", "done2/1", "top"):
            storage.put_if_absent(name, b"")
        for each in (storage, self.open()):
            demand(
                each.list("done") == ["10", "7"], f"a list has the names directly in it, sorted: {each.list('done')}"
            )
            demand(each.list("") == ["top"], f"the root is a folder, too: {each.list('')}")
            demand(each.list("don") == [], "the begin of a folder's name is no folder")
            demand(each.list("none") == [], "a folder that is absent is empty")
            for folder in ("done", "", "don", "none"):
                demand(each.peek_names(folder) == each.list(folder), f"a peek has the same names: {folder!r}")

    def test_a_list_has_every_record_of_a_large_folder(self) -> None:
        storage = self.open()
        names = sorted(f"{number}" for number in range(self.many))
        for name in names:
            storage.put_if_absent(f"offsets/{name}", b"")
        demand(self.open().list("offsets") == names, "a list has all names, over all pages of a store")

    many = 300
    """Records in the largest folder. A store that lists in pages should have more here than are on one."""

    def test_a_list_sees_what_was_put_replaced_and_deleted_before(self) -> None:
        storage, other = self.open(), self.open()
        for number in range(self.races):
            storage.put_if_absent(f"runs/{number}", b"")
            demand(str(number) in other.list("runs"), "a list sees every put that has returned")
            storage.delete(f"runs/{number}")
            demand(str(number) not in other.list("runs"), "and no record that was deleted before")

    def test_the_folders_in_a_folder_are_told_from_its_records(self) -> None:
        storage = self.open()
        for name in ("words/job.json", "words/queries/count/g1/start", "words/queries/count/g10/start", "top"):
            storage.put_if_absent(name, b"")
        for each in (storage, self.open()):
            demand(each.folders("") == ["words"], f"a record is no folder: {each.folders('')}")
            demand(each.folders("words") == ["queries"], f"only the folders directly in it: {each.folders('words')}")
            demand(each.folders("words/queries/count") == ["g1", "g10"], "sorted")
            demand(each.folders("word") == [], "the begin of a folder's name is no folder")
            demand(each.folders("none") == [], "a folder that is absent has none")

    def test_a_note_replaces_the_whole_content(self) -> None:
        for data in (b"one, which is longer", b"two"):
            self.open().note("words/beat.json", data)
            demand(self.open().peek("words/beat.json") == data, "each opening sees the newest note")
        demand(self.open().list("words") == ["beat.json"], "and a note leaves no other file")

    def test_a_cleared_folder_is_gone_with_all_below_it_and_nothing_beside_it(self) -> None:
        storage = self.open()
        for name in ("words/queries/a/g1/start", "words/queries/a/7", "words/queries2/7", "words/queries.json"):
            storage.put_if_absent(name, b"content")
        storage.clear("words/queries")
        storage.clear("words/queries")
        demand(self.open().read("words/queries/a/g1/start") is None, "a record below is gone")
        demand(self.open().folders("words") == ["queries2"], f"the folder is gone: {self.open().folders('words')}")
        demand(self.open().list("words") == ["queries.json"], "what is beside it stays")
        storage.put_if_absent("words/queries/a/7", b"again")
        demand(self.open().folders("words/queries/a") == [], "its name is free, and nothing comes back")
        demand(self.open().list("words/queries/a") == ["7"], "a new record is alone there")

    def test_an_empty_folder_goes_and_a_folder_with_a_record_stays(self) -> None:
        storage = self.open()
        storage.put_if_absent("checkpoints/3/manifest", b"")
        storage.delete_folder("checkpoints/3")
        demand(self.open().list("checkpoints/3") == ["manifest"], "a record keeps its folder")
        storage.delete("checkpoints/3/manifest")
        storage.settle("checkpoints/3")
        storage.delete_folder("checkpoints/3")
        storage.delete_folder("checkpoints/3")
        demand(self.open().folders("checkpoints") == [], "an empty folder is gone; a second time is no error")

    def test_a_folder_below_is_the_same_storage_under_longer_names(self) -> None:
        storage = self.open()
        query = storage.below("queries/words").below("g1")
        query.put_if_absent("ledger/start", b"start")
        demand(storage.read("queries/words/g1/ledger/start") == b"start", "a record below is seen from above")
        demand(storage.where("queries/words/g1/ledger") == query.where("ledger"), "both say the same place")
        demand(query.list("ledger") == ["start"], "a list below is of its own folder")

    def test_every_name_has_a_place_that_a_person_can_look_for(self) -> None:
        storage = self.open()
        demand(storage.where("ledger/start").endswith("ledger/start"), f"a place ends with the name: {storage.where()}")
        demand(storage.where("ledger/start").startswith(storage.where()), "and begins with the place of the root")

    @pytest.mark.parametrize("name", ["/absolute", "../beside", "folder/../../beside"])
    def test_a_name_that_leaves_the_root_is_refused(self, name: str) -> None:
        storage = self.open()
        for act in (storage.read, storage.peek, storage.look, storage.list, storage.delete, storage.set_aside):
            with pytest.raises(ValueError, match="not a name below"):
                act(name)
        for write in (storage.put_if_absent, storage.replace):
            with pytest.raises(ValueError, match="not a name below"):
                write(name, b"")

    # --- set aside, left over --------------------------------------------------------------------------------

    def test_what_is_set_aside_keeps_its_content_and_frees_its_name(self) -> None:
        storage = self.open()
        asides: list[str] = []
        for number in range(3):
            storage.put_if_absent("commits/7", b"%d" % number)
            aside = storage.set_aside("commits/7")
            demand(aside is not None and aside.startswith("commits/.aside-7-"), f"it is hidden, and named: {aside}")
            asides.append(str(aside))
            demand(self.open().read("commits/7") is None, "its own name is free")
        demand(len(set(asides)) == len(asides), "each one has a name of its own")
        demand([self.open().read(name) for name in asides] == [b"0", b"1", b"2"], "each one keeps its content")
        demand(storage.set_aside("commits/7") is None, "what is gone cannot be set aside: None")

    def test_removing_leftovers_spares_every_record(self) -> None:
        storage = self.open()
        for name in ("claims/.claim-1", "claims/7", "claims/older/3"):
            storage.put_if_absent(name, b"kept")
        storage.remove_leftovers("claims")
        storage.remove_leftovers("claims", "7")
        storage.remove_leftovers("no such folder")
        demand(self.open().list("claims") == [".claim-1", "7"], "records stay, hidden ones too")
        demand(self.open().read("claims/older/3") == b"kept", "and so do those of folders below")

    def test_the_check_of_a_start_passes_and_leaves_nothing(self) -> None:
        demand((error := check_storage(self.open())) is None, f"the check that each start makes passes: {error}")
        demand(self.open().list("") == [], "and leaves the place as it was")


ResultT = TypeVar("ResultT")


def at_once(acts: Sequence[Callable[[], ResultT]]) -> list[ResultT]:
    """Run all functions at the same moment, each in its own thread. Returns their results in the same order."""
    gate = threading.Barrier(len(acts))

    def run(act: Callable[[], ResultT]) -> ResultT:
        gate.wait()
        return act()

    with ThreadPoolExecutor(len(acts)) as threads:
        return list(threads.map(run, acts))


def _put(storage: Storage, name: str, data: bytes) -> Callable[[], bool]:
    return lambda: storage.put_if_absent(name, data)
