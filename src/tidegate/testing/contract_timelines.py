"""Tests that a sink distinguishes the timelines, generations and jobs that write into one target."""

from __future__ import annotations

import msgspec

from tidegate.core.records import Evidence, Outcome, SinkIdentity
from tidegate.testing.contract_parts import (
    IDENTITY,
    attempt_of,
    demand,
    rows_from,
)
from tidegate.testing.contract_tools import ContractTools


class TimelineContract(ContractTools):
    """Other runs, generations, jobs, queries and sinks write into the same target."""

    def test_a_second_timeline_is_noticed(self) -> None:
        """Another run has the same epoch with other rows: none of its rows is accepted, and the evidence shows the
        reason."""
        self.skip_unless_timelines_are_compared()
        sink = self.opened()
        ours = self.prepared(sink, attempt_of(run=1), rows_from(0, 2))
        theirs = self.prepared(sink, attempt_of(run=2), rows_from(10, 2))
        self.all_answer(sink.commit([ours]), Outcome.COMMITTED)
        self.all_answer(sink.commit([theirs]), Outcome.UNKNOWN)
        demand(sink.evidence(theirs) is Evidence.OTHER, "evidence for the second timeline is OTHER")
        demand(sink.evidence(ours) is Evidence.PRESENT, "evidence for the first timeline stays PRESENT")
        self.target_has_decided(rows_from(0, 2))

    def test_an_older_generation_does_not_count_for_a_newer_one(self) -> None:
        sink = self.opened()
        sink.commit([self.prepared(sink, attempt_of(generation=1), rows_from(0, 2))])
        newer = self.prepared(sink, attempt_of(generation=2), rows_from(10, 2))
        demand(sink.evidence(newer) is Evidence.ABSENT, "the epoch of a newer generation is ABSENT")
        self.all_answer(sink.commit([newer]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2), rows_from(10, 2))

    def test_an_epoch_below_a_committed_one_comes_too_late(self) -> None:
        """An old finisher resumes with an epoch that was never committed in this target."""
        sink = self.opened()
        late = self.prepared(sink, attempt_of(epoch=1), rows_from(0, 2))
        sink.commit([self.prepared(sink, attempt_of(epoch=2), rows_from(10, 2))])
        self.skip_unless_timelines_are_compared()
        self.all_answer(sink.commit([late]), Outcome.UNKNOWN)
        demand(sink.evidence(late) is not Evidence.PRESENT, "there is no evidence of an epoch that came too late")
        self.target_has_decided(rows_from(10, 2))

    def test_a_checkpoint_that_was_begun_anew_is_kept_out(self) -> None:
        """The folder was deleted and the job has another id: the commits of the older job stay."""
        sink = self.opened()
        sink.commit([self.prepared(sink, attempt_of(), rows_from(0, 2))])
        anew = msgspec.structs.replace(IDENTITY, job_id="beef")
        theirs = self.prepared(sink, msgspec.structs.replace(attempt_of(), sink=anew), rows_from(10, 2))
        self.skip_unless_timelines_are_compared()
        self.all_answer(sink.commit([theirs]), Outcome.UNKNOWN)
        demand(sink.evidence(theirs) is Evidence.OTHER, "evidence for the other job id is OTHER")
        if sink.remembers:
            found = sink.position(anew)
            demand(found is not None and found.job_id == IDENTITY.job_id, f"the position tells whose it is: {found}")
        self.target_has_decided(rows_from(0, 2))

    def test_others_of_a_like_name_are_left_alone(self) -> None:
        """Other jobs, queries and sinks with the same name prefix commit, clean up and discard."""
        sink = self.opened()
        ours = self.prepared(sink, attempt_of(epoch=1), rows_from(0, 2))
        for number, other in enumerate(_OTHERS, start=1):
            attempt = msgspec.structs.replace(attempt_of(epoch=5), sink=other)
            self.all_answer(sink.commit([self.prepared(sink, attempt, rows_from(number * 10, 2))]), Outcome.COMMITTED)
            sink.clean(other, 5)
            sink.discard(other, 0)
        self.all_answer(sink.commit([ours]), Outcome.COMMITTED)
        if sink.remembers:
            found = sink.position(IDENTITY)
            demand(found is not None and found.epoch == 1, f"our position is our own: {found}")
        self.target_has(*(rows_from(number * 10, 2) for number in range(4)))


_OTHERS: list[SinkIdentity] = [
    msgspec.structs.replace(IDENTITY, job=f"{IDENTITY.job}-2", job_id=f"{IDENTITY.job_id}2"),
    msgspec.structs.replace(IDENTITY, query=f"{IDENTITY.query}-2"),
    msgspec.structs.replace(IDENTITY, sink=f"{IDENTITY.sink}-2"),
]
