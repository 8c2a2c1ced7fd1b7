"""The contract of `TargetFiles` as a suite of tests. Needs pytest.

class TestMyTargetFiles(TargetFilesContract):
    def open(self) -> TargetFiles: ...
    def read(self, name: str) -> bytes | None: ...
"""

from __future__ import annotations

import hashlib
import secrets
from abc import ABC, abstractmethod
from functools import partial

from tidegate.storages.target_files import FileProof, Fit, NewTargetFile, Published, TargetFiles
from tidegate.testing.contract_parts import demand
from tidegate.testing.storage_contract import at_once

_FINAL = "day=2026-11-26/part-0.json"


class TargetFilesContract(ABC):
    """The tests that every `TargetFiles` must pass.

    Inherit them in a test class named `Test...` that defines `open` and `read`.
    """

    large_bytes: int = 40 << 20
    """A size that the storage writes in several steps."""

    races: int = 3
    """How often several publish at once."""

    @abstractmethod
    def open(self) -> TargetFiles:
        """Open the files of this test. None of them exists when the test begins. Each call returns a new object for the
        same place, as for another process.
        """

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """The content of a file as a reader gets it, without using the object under test; None if it is absent."""

    def test_a_staged_file_appears_whole_when_it_is_closed(self) -> None:
        name, proof, file = self._begun(b"some rows")
        demand(self.open().fit(name, proof) is Fit.ABSENT, "a file that is written does not have its name yet")
        file.close()
        demand(self.open().fit(name, proof) is Fit.SAME, "a closed file is there for every process")
        demand(self.read(name) == b"some rows", "a staged file can be read")

    def test_a_file_that_is_not_the_one_of_the_proof_is_told_from_it(self) -> None:
        name, proof = self._staged(b"some rows")
        longer = FileProof(proof.size_bytes + 1, proof.sha256, proof.token)
        demand(self.open().fit(name, longer) is Fit.OTHER, "a file of another size is another file")
        demand(self.open().fit("absent", proof) is Fit.ABSENT, "there is no file")

    def test_a_published_file_has_the_content_and_the_proof_of_the_staged_one(self) -> None:
        name, proof = self._staged(b"some rows")
        demand(self.read(_FINAL) is None, "nothing is visible before")
        demand(self.open().publish(name, _FINAL, proof) is Published.VISIBLE, "it is published")
        demand(self.read(_FINAL) == b"some rows", "its content is visible")
        demand(self.open().fit(_FINAL, proof) is Fit.SAME, "the published file has the same proof")
        stays = self.open().fit(name, proof) is not Fit.ABSENT
        demand(stays is self.open().keeps_staged, "the staged file stays only where publishing copies")
        self.open().settle(["day=2026-11-26"])

    def test_publishing_again_changes_nothing(self) -> None:
        name, proof = self._staged(b"some rows")
        for _ in range(3):
            demand(self.open().publish(name, _FINAL, proof) is Published.VISIBLE, "it is published")
        demand(self.read(_FINAL) == b"some rows", "its content is visible")

    def test_of_what_is_not_staged_nothing_is_published(self) -> None:
        _, proof = self._staged(b"some rows")
        demand(self.open().publish("absent", _FINAL, proof) is Published.UNSTAGED, "there is nothing to publish")
        demand(self.read(_FINAL) is None, "nothing is visible")

    def test_several_that_publish_at_once_all_find_it_published(self) -> None:
        for race in range(self.races):
            name, proof = self._staged(b"some rows")
            to = f"{race}.json"
            outcomes = at_once([partial(self.open().publish, name, to, proof) for _ in range(3)])
            demand(set(outcomes) == {Published.VISIBLE}, f"each finds it published, not {outcomes}")
            demand(self.read(to) == b"some rows", "its content is visible")

    def test_an_abandoned_file_is_gone(self) -> None:
        for is_closed in (False, True):
            name, proof, file = self._begun(b"some rows")
            if is_closed:
                file.close()
            file.abandon()
            file.abandon()
            demand(self.open().fit(name, proof) is Fit.ABSENT, f"nothing is left of it (closed: {is_closed})")

    def test_a_large_file_arrives_whole(self) -> None:
        block = secrets.token_bytes(1 << 20)
        count = self.large_bytes // len(block)
        name, proof, file = self._begun(*[block] * count)
        file.close()
        demand(self.open().publish(name, _FINAL, proof) is Published.VISIBLE, "it is published")
        found = self.read(_FINAL)
        demand(found is not None and hashlib.sha256(found).hexdigest() == proof.sha256, "its content is visible")

    def test_a_large_file_that_is_abandoned_is_gone(self) -> None:
        name, proof, file = self._begun(bytes(self.large_bytes))
        file.abandon()
        demand(self.open().fit(name, proof) is Fit.ABSENT, "nothing is left of it")

    def test_what_a_missing_staged_file_proves(self) -> None:
        """Where publishing moves, a file leaves its folder in no other way, as long as the folder is there."""
        name, proof = self._staged(b"some rows")
        folder = name.rpartition("/")[0]
        self.open().publish(name, _FINAL, proof)
        moves = not self.open().keeps_staged
        demand(self.open().proves_publication(folder) is moves, "the folder proves it only where publishing moves")
        demand(not self.open().proves_publication(".hidden/absent"), "a folder that is gone proves nothing")

    # --- tools ---------------------------------------------------------------------------------------------

    def _staged(self, data: bytes) -> tuple[str, FileProof]:
        name, proof, file = self._begun(data)
        file.close()
        return name, proof

    def _begun(self, *blocks: bytes) -> tuple[str, FileProof, NewTargetFile]:
        token = secrets.token_hex(16)
        name = f".hidden/e5/r1-t0.0.{token}.staged"
        found = hashlib.sha256()
        file = self.open().create(name, token)
        for block in blocks:
            found.update(block)
            demand(file.write(block) == len(block), "write takes all of its data")
        return name, FileProof(sum(map(len, blocks)), found.hexdigest(), token), file
