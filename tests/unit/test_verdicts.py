"""What may be done with a transaction, over every combination of what the ledger and the sink say and who is alive."""

from __future__ import annotations

from itertools import product

import pytest

from tidegate.operate.verdicts import Act, Named, Permission, Runs, Seen, Verdict, permission, price, verdict_of

EVERYTHING = list(product(Named, Seen, (False, True)))
UNDECIDED = (Named.PREPARED, Named.NOT_CHOSEN, Named.NOWHERE)
FORCED = (Permission.FORCED_ONLY, Permission.NEVER)


@pytest.mark.parametrize(("named", "seen", "alive"), EVERYTHING)
def test_nothing_decided_is_aborted_and_nothing_undecided_committed_without_force(
    named: Named, seen: Seen, alive: bool
) -> None:
    verdict = verdict_of(named, seen, Runs.of(alive))
    if permission(Act.COMMIT, named, verdict) is Permission.GIVEN:
        assert named is Named.DECIDED
    if permission(Act.ABORT, named, verdict) is Permission.GIVEN:
        assert named in UNDECIDED


@pytest.mark.parametrize(("named", "seen", "act"), list(product((Named.DECIDED, *UNDECIDED), Seen, Act)))
def test_beside_a_driver_that_is_alive_nothing_is_done_even_by_force(named: Named, seen: Seen, act: Act) -> None:
    verdict = verdict_of(named, seen, Runs.YES)
    assert verdict is Verdict.IN_USE
    assert permission(act, named, verdict) is Permission.NEVER


@pytest.mark.parametrize("seen", Seen)
def test_what_is_decided_is_committed_whatever_the_sink_has_of_it(seen: Seen) -> None:
    right = Verdict.UNKNOWN if seen is Seen.ANOTHER_TIMELINE else Verdict.COMMIT
    assert verdict_of(Named.DECIDED, seen, Runs.NO) is right


@pytest.mark.parametrize(("named", "seen"), list(product(UNDECIDED, Seen)))
def test_what_no_decision_names_is_given_up_unless_its_rows_are_visible(named: Named, seen: Seen) -> None:
    strange = seen in (Seen.COMMITTED, Seen.ANOTHER_TIMELINE)
    assert verdict_of(named, seen, Runs.NO) is (Verdict.UNKNOWN if strange else Verdict.ABORT)


@pytest.mark.parametrize(("named", "seen", "alive"), EVERYTHING)
def test_only_a_whole_prepared_record_can_be_committed_by_force(named: Named, seen: Seen, alive: bool) -> None:
    verdict = verdict_of(named, seen, Runs.of(alive))
    if permission(Act.COMMIT, named, verdict) is Permission.FORCED_ONLY:
        assert (named, verdict) == (Named.PREPARED, Verdict.ABORT)


@pytest.mark.parametrize(("named", "seen", "alive"), EVERYTHING)
def test_of_another_job_and_of_an_unreadable_ledger_nothing_is_done_without_force(
    named: Named, seen: Seen, alive: bool
) -> None:
    if named in (Named.ANOTHER_JOB, Named.UNREADABLE):
        verdict = verdict_of(named, seen, Runs.of(alive))
        assert verdict in (Verdict.FOREIGN, Verdict.UNKNOWN)
        assert {permission(act, named, verdict) for act in Act} <= set(FORCED)


@pytest.mark.parametrize(("act", "named"), list(product(Act, Named)))
def test_what_force_costs_is_said_for_each(act: Act, named: Named) -> None:
    assert any(word in price(act, named) for word in ("repeated", "lost"))
