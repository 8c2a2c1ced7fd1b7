"""Who may do what: every cell of the table, and how a request becomes one of its columns."""

from __future__ import annotations

from itertools import product

import pytest

from tidegate.web.guard import GUARD, Addresses, Admission, Caller, CameFrom, Sought, TokenGiven, caller_of, came

HERE = Addresses("http", frozenset({"127.0.0.1", "localhost", "[::1]"}))
BEHIND = Addresses("http", HERE.names, proxy="https://jobs.example.com")
OPEN = Addresses("https", HERE.names | {"jobs"}, any_number=True)

ACTS = {Sought.ACT_HERE, Sought.ACT_ANYWHERE}
PAGES = {Sought.PAGE_HERE, Sought.PAGE_ANYWHERE}


def expected(sought: Sought, caller: Caller) -> Admission:
    """The rules in sentences."""
    match caller:
        case Caller.BY_A_FOREIGN_NAME:  # whatever it asks for
            return Admission.MISDIRECTED
        case Caller.FROM_A_FOREIGN_SITE:
            return Admission.FOREIGN
        case Caller.BY_A_LINK:  # a link may lead to the page, and to nothing else
            return Admission.ALLOWED if sought in PAGES else Admission.FOREIGN
        case Caller.WITH_A_WRONG_TOKEN:  # who gives a token wants it to count
            return Admission.TOKEN_WRONG
        case Caller.WITHOUT_A_TOKEN:
            needs_none = sought in PAGES or sought is Sought.VIEW_HERE
            return Admission.ALLOWED if needs_none else Admission.TOKEN_NEEDED
        case Caller.WITH_THE_TOKEN:
            return Admission.ALLOWED


@pytest.mark.parametrize(("sought", "caller"), list(product(Sought, Caller)))
def test_every_cell_of_the_table_follows_the_rules(sought: Sought, caller: Caller) -> None:
    assert GUARD.cell(sought, caller) is expected(sought, caller)


@pytest.mark.parametrize("caller", Caller)
def test_who_may_act_may_look_and_who_may_look_may_load_the_page(caller: Caller) -> None:
    for page, view, act in (
        (Sought.PAGE_HERE, Sought.VIEW_HERE, Sought.ACT_HERE),
        (Sought.PAGE_ANYWHERE, Sought.VIEW_ANYWHERE, Sought.ACT_ANYWHERE),
    ):
        allowed = [GUARD.cell(sought, caller) is Admission.ALLOWED for sought in (act, view, page)]
        assert allowed == sorted(allowed)


@pytest.mark.parametrize(
    ("addresses", "host", "is_ours"),
    [
        (HERE, "127.0.0.1:8081", True),
        (HERE, "LocalHost:9000", True),  # a tunnel ends at another port
        (HERE, "[::1]:8081", True),
        (HERE, "localhost", True),
        (HERE, "attacker.example:8081", False),
        (HERE, "127.0.0.1.attacker.example", False),
        (HERE, "localhost.attacker.example", False),
        (HERE, "localhost.", False),
        (HERE, "127.0.0.1@attacker.example", False),
        (HERE, "attacker.example#127.0.0.1", False),
        (HERE, "192.168.0.7:8081", False),
        (HERE, "", False),
        (HERE, "localhost:80:80", False),
        (BEHIND, "jobs.example.com", True),
        (BEHIND, "jobs.example.com:443", True),
        (BEHIND, "jobs.example.com:444", False),
        (BEHIND, "127.0.0.1:8081", True),  # a proxy that sends its own request's host
        (OPEN, "192.168.0.7:8081", True),
        (OPEN, "[fd00::7]:8081", True),
        (OPEN, "jobs:8081", True),
        (OPEN, "jobs.attacker.example:8081", False),
    ],
)
def test_a_host_is_ours_if_no_site_can_have_its_name(addresses: Addresses, host: str, is_ours: bool) -> None:
    assert addresses.is_ours(host) is is_ours


@pytest.mark.parametrize(
    ("addresses", "origins", "sites", "found"),
    [
        (HERE, (), (), CameFrom.HERE),
        (HERE, ("http://localhost:8081",), (), CameFrom.HERE),
        (HERE, ("http://localhost:8081",), ("same-origin",), CameFrom.HERE),
        (HERE, (), ("none",), CameFrom.HERE),
        (HERE, (), ("cross-site",), CameFrom.A_LINK),
        (HERE, (), ("same-site",), CameFrom.A_LINK),  # another port of this machine
        (HERE, ("http://localhost:3000",), (), CameFrom.ANOTHER_ORIGIN),
        (HERE, ("http://127.0.0.1:8081",), (), CameFrom.ANOTHER_ORIGIN),  # asked as localhost
        (HERE, ("https://localhost:8081",), (), CameFrom.ANOTHER_ORIGIN),
        (HERE, ("null",), (), CameFrom.ANOTHER_ORIGIN),
        (HERE, ("",), (), CameFrom.ANOTHER_ORIGIN),
        (HERE, ("http://localhost:8081", "https://attacker.example"), (), CameFrom.ANOTHER_ORIGIN),
        (BEHIND, ("https://jobs.example.com",), ("same-origin",), CameFrom.HERE),
        (BEHIND, ("http://jobs.example.com",), (), CameFrom.ANOTHER_ORIGIN),
    ],
)
def test_a_request_comes_from_here_only_if_a_browser_says_nothing_else(
    addresses: Addresses, origins: tuple[str, ...], sites: tuple[str, ...], found: CameFrom
) -> None:
    assert came(addresses, "localhost:8081", origins, sites) is found


@pytest.mark.parametrize("hosts", [(), ("127.0.0.1:8081", "attacker.example")])
def test_a_request_without_one_host_is_for_somebody_else(hosts: tuple[str, ...]) -> None:
    assert caller_of(HERE, {"host": hosts}, TokenGiven.RIGHT) is Caller.BY_A_FOREIGN_NAME


def test_the_token_counts_only_where_host_and_origin_are_ours() -> None:
    ours = {"host": ["localhost:8081"]}
    assert caller_of(HERE, ours, TokenGiven.RIGHT) is Caller.WITH_THE_TOKEN
    assert caller_of(HERE, ours, TokenGiven.WRONG) is Caller.WITH_A_WRONG_TOKEN
    assert caller_of(HERE, ours, TokenGiven.NONE) is Caller.WITHOUT_A_TOKEN
    foreign = {**ours, "origin": ["https://attacker.example"]}
    assert caller_of(HERE, foreign, TokenGiven.RIGHT) is Caller.FROM_A_FOREIGN_SITE
