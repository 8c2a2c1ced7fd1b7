"""Which jobs a storage without locks takes: what needs the proof that no other driver lives is refused."""

from __future__ import annotations

import pytest

from tidegate.core.levels import Level
from tidegate.settings.kinds import Backend
from tidegate.spark.lease_watch import check_lease
from tidegate.storages.local.lease import LocalLease
from tidegate.storages.schemes import Scheme
from tidegate.storages.terms.lease import TermsLease
from tidegate.testing.memory_storage import Memory, MemoryStorage


@pytest.mark.parametrize(
    ("scheme", "codes"),
    [(Scheme.S3, ["TG-SETTINGS-CLASH"]), (Scheme.HDFS, []), (Scheme.VIEWFS, [])],
    ids=lambda value: value.value if isinstance(value, Scheme) else "",
)
def test_hashmap_is_refused_where_entries_of_sparks_log_can_be_overwritten(scheme: Scheme, codes: list[str]) -> None:
    lease = TermsLease(MemoryStorage(Memory()), 30.0)
    assert [error.code for error in check_lease(lease, Level.EXACTLY_ONCE, Backend.HASHMAP, scheme, "job")] == codes


def test_at_most_once_is_refused_on_terms() -> None:
    lease = TermsLease(MemoryStorage(Memory()), 30.0)
    (error,) = check_lease(lease, Level.AT_MOST_ONCE, Backend.ROCKSDB, Scheme.HDFS, "job")
    assert error.code == "TG-LEVEL-REFUSED"


def test_file_locks_prove_enough_for_both() -> None:
    lease = LocalLease("/jobs/job")
    assert list(check_lease(lease, Level.AT_MOST_ONCE, Backend.HASHMAP, Scheme.FILE, "job")) == []
