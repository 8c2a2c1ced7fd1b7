"""Jobs whose lease is one of terms, as on a storage without locks."""

from __future__ import annotations

from tests.integration.place import Place, error_of, run, wait_until_finished
from tidegate import FileSink, Job
from tidegate.core.errors import Code
from tidegate.storages.terms.lease import HeldTerm


def words_job(place: Place, **settings: str) -> Job:
    job = place.job(**settings)
    job.query("query", place.words(job), sinks=[FileSink("out", place.folder / "out", format="json")])
    return job


def test_a_job_that_has_lost_its_lease_commits_nothing_more_and_the_next_start_goes_on(
    place: Place, held: list[HeldTerm]
):
    place.write("sea")
    handle = words_job(place).start()
    wait_until_finished(handle, 0)
    held[0]._sent_at -= 20  # as after a pause of two thirds of lease.timeout
    place.write("sand")
    error = error_of(lambda: handle.wait(60))

    assert error.catalogue_entry is Code.LEASE_LOST
    assert "two thirds" in error.found
    assert place.log("ledger/done") == [0]
    assert place.words_out() == {0: ["sea"]}

    run(words_job(place))
    assert place.words_out() == {0: ["sea"], 1: ["sand"]}
    assert [each.holder.job for each in held] == ["job", "job"]
    assert sorted(each.name for each in (place.checkpoints / "job/lease").iterdir()) == ["2", "2.released"]


def test_a_job_that_does_nothing_ends_when_another_driver_has_taken_its_lease(place: Place, held: list[HeldTerm]):
    place.write("sea")
    handle = words_job(place, lease_timeout="3s").start()
    wait_until_finished(handle, 0)
    lease = place.checkpoints / "job/lease"
    (lease / "2").write_bytes((lease / "1").read_bytes())
    error = error_of(lambda: handle.wait(60))
    assert error.catalogue_entry is Code.LEASE_LOST
    assert "newer term" in error.found


def test_what_needs_the_proof_that_no_other_driver_lives_is_refused(place: Place, held: list[HeldTerm]):
    job = words_job(place, checkpointing_mode="at-most-once", state_backend="hashmap")
    error = error_of(job.start)
    codes = [each.catalogue_entry for each in error.violations]
    assert codes == [Code.LEVEL_REFUSED, Code.SETTINGS_CLASH]
    assert all("paused driver" in each.found for each in error.violations)
    assert not (place.checkpoints / "job/job.json").exists()
