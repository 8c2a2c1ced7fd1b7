"""Who may do what: one total table. `guarding` finds out who asks, and obeys the table.

Three kinds of attackers are meant. A site that a user of this machine looks at, whose scripts and forms reach this
machine's own addresses: by a name of its own that suddenly means this machine (DNS rebinding), or across origins. A
machine on the network. A program without the token, beside programs that have it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tidegate.core.matrix import Matrix


class Sought(Enum):
    """What a request asks for, and from where the server can be reached."""

    PAGE_HERE = "the page itself, on this machine"
    VIEW_HERE = "a view of jobs, on this machine"
    ACT_HERE = "an action, on this machine"
    PAGE_ANYWHERE = "the page itself, from elsewhere"
    VIEW_ANYWHERE = "a view of jobs, from elsewhere"
    ACT_ANYWHERE = "an action, from elsewhere"


class Caller(Enum):
    """Who asks: by host and origin, which no site can make a browser forge, and by the token. The first that fits
    counts."""

    BY_A_FOREIGN_NAME = "another host"
    FROM_A_FOREIGN_SITE = "another origin"
    BY_A_LINK = "a link of another site"
    WITH_A_WRONG_TOKEN = "a wrong token"
    WITHOUT_A_TOKEN = "no token"
    WITH_THE_TOKEN = "the token"


class Admission(Enum):
    """What becomes of a request."""

    ALLOWED = "yes"
    MISDIRECTED = "421"
    FOREIGN = "403"
    TOKEN_NEEDED = "401, asks for one"
    TOKEN_WRONG = "401, slowly"


_YES, _HOST, _SITE = Admission.ALLOWED, Admission.MISDIRECTED, Admission.FOREIGN
_ASK, _WRONG = Admission.TOKEN_NEEDED, Admission.TOKEN_WRONG

GUARD = Matrix(
    Sought,
    Caller,
    {
        #                     name   site   link   wrong   none  token
        Sought.PAGE_HERE: (_HOST, _SITE, _YES, _WRONG, _YES, _YES),
        Sought.VIEW_HERE: (_HOST, _SITE, _SITE, _WRONG, _YES, _YES),
        Sought.ACT_HERE: (_HOST, _SITE, _SITE, _WRONG, _ASK, _YES),
        Sought.PAGE_ANYWHERE: (_HOST, _SITE, _YES, _WRONG, _YES, _YES),
        Sought.VIEW_ANYWHERE: (_HOST, _SITE, _SITE, _WRONG, _ASK, _YES),
        Sought.ACT_ANYWHERE: (_HOST, _SITE, _SITE, _WRONG, _ASK, _YES),
    },
)
"""The page itself is files of tidegate's, with nothing of a job: a browser loads them before it has a token."""


class TokenGiven(Enum):
    """The token of a request."""

    NONE = "none"
    RIGHT = "the right one"
    WRONG = "another one, or several"


class CameFrom(Enum):
    """From where a browser says that it sends a request. Other programs say nothing."""

    HERE = "a page of this server, an address that was typed, or a program"
    A_LINK = "another site, without an origin: a link, an image, a script"
    ANOTHER_ORIGIN = "another origin"


@dataclass(frozen=True, slots=True)
class Addresses:
    """The names under which a server is asked. `scheme`: "http" or "https". `names`: of hosts, in small letters, IPv6
    addresses in brackets, for any port: a tunnel may end at another one. `any_number`: each IP address counts as well,
    as no site can make a browser take a number for its name. `proxy`: the origin of the stated proxy, if there is one.
    """

    scheme: str
    names: frozenset[str]
    any_number: bool = False
    proxy: str | None = None

    def is_ours(self, host: str) -> bool:
        """True if a request with this `Host` is meant for this server."""
        parts = _HOST_HEADER.fullmatch(host)
        if parts is None:
            return False
        if self.proxy is not None and host.lower() in _hosts_of(self.proxy):
            return True
        name = parts["name"].lower()
        return name in self.names or (self.any_number and _IS_A_NUMBER.fullmatch(name) is not None)

    def is_ours_from(self, origin: str, host: str) -> bool:
        """True if a page with this `Origin` came from this server, which was asked as `host`."""
        return origin.lower() in {f"{self.scheme}://{host}".lower(), self.proxy}


_HOST_HEADER = re.compile(r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_IS_A_NUMBER = re.compile(r"\d{1,3}(\.\d{1,3}){3}|\[[0-9a-f:.]+\]")
_OURS_BY_FETCH = frozenset({"same-origin", "none"})


def _hosts_of(origin: str) -> tuple[str, ...]:
    """The values of `Host` for an origin with `https`: browsers leave its own port out, other clients may not."""
    host = origin.removeprefix("https://")
    return (host,) if re.search(r":\d+$", host) else (host, f"{host}:443")


def caller_of(addresses: Addresses, headers: Mapping[str, Sequence[str]], token: TokenGiven) -> Caller:
    """Who asks. `headers`: all values of each, by its name in small letters."""
    hosts = headers.get("host", ())
    if len(hosts) != 1 or not addresses.is_ours(hosts[0]):
        return Caller.BY_A_FOREIGN_NAME
    came_from = came(addresses, hosts[0], headers.get("origin", ()), headers.get("sec-fetch-site", ()))
    return _CALLER.get(came_from) or _BY_TOKEN[token]


def came(addresses: Addresses, host: str, origins: Sequence[str], sites: Sequence[str]) -> CameFrom:
    """From where a request came. `null`, which sandboxed pages and local files send, is another origin."""
    if any(not addresses.is_ours_from(origin, host) for origin in origins):
        return CameFrom.ANOTHER_ORIGIN
    if not origins and any(site.lower() not in _OURS_BY_FETCH for site in sites):
        return CameFrom.A_LINK
    return CameFrom.HERE


_CALLER: Mapping[CameFrom, Caller] = {
    CameFrom.ANOTHER_ORIGIN: Caller.FROM_A_FOREIGN_SITE,
    CameFrom.A_LINK: Caller.BY_A_LINK,
}
_BY_TOKEN: Mapping[TokenGiven, Caller] = {
    TokenGiven.NONE: Caller.WITHOUT_A_TOKEN,
    TokenGiven.WRONG: Caller.WITH_A_WRONG_TOKEN,
    TokenGiven.RIGHT: Caller.WITH_THE_TOKEN,
}
