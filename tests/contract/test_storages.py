"""The storages that there are, under the contract that is shipped."""

from __future__ import annotations

import pytest

from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.opening import open_storage
from tidegate.storages.storage import Names, Storage
from tidegate.testing.contract_parts import ContractBroken
from tidegate.testing.memory_storage import Memory, MemoryStorage
from tidegate.testing.storage_contract import StorageContract


class TestLocalStorage(StorageContract):
    def open(self) -> Storage:
        return open_storage((self.folder / "place").as_uri())


class TestMemoryStorage(StorageContract):
    @pytest.fixture(autouse=True)
    def _memory(self) -> None:
        self.memory = Memory()

    def open(self) -> Storage:
        return MemoryStorage(self.memory)


# --- the suite finds what is wrong -------------------------------------------------------------------------


class Overwriting(MemoryStorage):
    """A put that replaces, and says that it has created."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        self.replace(name, data)
        return True


class OnePage(MemoryStorage):
    """A list that ends with the first page of the store."""

    def list(self, folder: str) -> Names:
        return super().list(folder)[:100]


class ByPrefix(MemoryStorage):
    """A list that takes the begin of a name for a folder."""

    def list(self, folder: str) -> Names:
        return sorted(key.rpartition("/")[2] for key in self._memory.records if key.startswith(folder))


class InParts(LocalStorage):
    """A replace that writes into the file that stands."""

    def replace(self, name: str, data: bytes) -> None:
        self.path(name).parent.mkdir(parents=True, exist_ok=True)
        self.path(name).write_bytes(data)


class Losing(MemoryStorage):
    """A file set aside that is gone."""

    def set_aside(self, name: str) -> str | None:
        aside = super().set_aside(name)
        if aside is not None:
            self.delete(aside)
        return aside


class Sweeping(MemoryStorage):
    """A clear that takes the begin of a name for a folder."""

    def clear(self, folder: str) -> None:
        for key in [key for key in self._memory.records if key.startswith(folder)]:
            self.delete(key)


class Flat(MemoryStorage):
    """Folders that are the records, too."""

    def folders(self, folder: str) -> Names:
        return sorted({*super().folders(folder), *self.list(folder)})


class Forceful(MemoryStorage):
    """A folder is removed with what is in it."""

    def delete_folder(self, folder: str) -> None:
        self.clear(folder)


@pytest.mark.parametrize(
    ("flawed", "test"),
    [
        (Overwriting, "test_a_second_put_changes_nothing"),
        (Overwriting, "test_of_many_puts_at_once_exactly_one_wins_and_its_content_is_there"),
        (Overwriting, "test_the_check_of_a_start_passes_and_leaves_nothing"),
        (OnePage, "test_a_list_has_every_record_of_a_large_folder"),
        (ByPrefix, "test_a_list_has_the_records_of_one_folder_only_in_order"),
        (InParts, "test_a_reader_sees_the_old_content_or_the_new_one_and_nothing_between"),
        (Sweeping, "test_a_cleared_folder_is_gone_with_all_below_it_and_nothing_beside_it"),
        (Flat, "test_the_folders_in_a_folder_are_told_from_its_records"),
        (Forceful, "test_an_empty_folder_goes_and_a_folder_with_a_record_stays"),
        (Losing, "test_what_is_set_aside_keeps_its_content_and_frees_its_name"),
    ],
)
def test_the_suite_finds_a_storage_that_breaks_it(
    flawed: type[MemoryStorage | LocalStorage], test: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place: str | Memory = str(tmp_path_factory.mktemp("flawed")) if issubclass(flawed, LocalStorage) else Memory()

    class Suite(StorageContract):
        def open(self) -> Storage:
            return flawed(place)  # pyright: ignore[reportArgumentType] (each kind has its own kind of place)

    with pytest.raises(ContractBroken):
        getattr(Suite(), test)()
