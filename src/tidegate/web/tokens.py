"""The token that actions need: where it comes from, and how it is compared.

It is compared in constant time, and never shown: not in an answer, a log, an error or a record. Wrong tokens are
counted by the address that sends them: above a bound, no token of that address is compared until the older ones are a
minute old.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import SECRETS
from tidegate.web.guard import TokenGiven

TOKEN_VARIABLE = "TIDEGATE_UI_TOKEN"
WRONG_AT_MOST = 10
"""Wrong tokens of one address in a minute."""
_MINUTE_SECONDS = 60.0
_ADDRESSES_AT_MOST = 1_000
_BYTES_OF_A_TOKEN = 32
_SHORTEST = 20
_TOKEN = re.compile(rf"[A-Za-z0-9._~+/-]{{{_SHORTEST},500}}=*")
"""What `Authorization: Bearer` can carry (RFC 6750, 2.1), and too long to guess."""
_BEARER = re.compile(r"bearer +(?P<token>[^ ]+) *", re.IGNORECASE)
_READ_AT_MOST = 4_096


class TokenOrigin(Enum):
    """Where a token comes from."""

    MADE = "a new one, made at this start"
    FILE = "the one in the token file"
    ENVIRONMENT = f"the one in {TOKEN_VARIABLE}"


@dataclass(frozen=True, slots=True)
class Token:
    """The token. `shown`: itself, if it was made at this start. A token that was set is known."""

    secret: str = field(repr=False)
    origin: TokenOrigin

    @property
    def shown(self) -> str:
        return self.secret if self.origin is TokenOrigin.MADE else self.origin.value


def find_token(file: str | None, environment: Mapping[str, str]) -> Token:
    """The token of the file, else of the environment, else a new one. From here on no text of tidegate's shows it.

    Raises SETTING_VALUE for a file that cannot be read, and for a token that is too short or cannot be sent.
    """
    if file is not None:
        found = Token(_checked(_read(file), f"the file {file}"), TokenOrigin.FILE)
    elif TOKEN_VARIABLE in environment:
        found = Token(_checked(environment[TOKEN_VARIABLE], f"environment: {TOKEN_VARIABLE}"), TokenOrigin.ENVIRONMENT)
    else:
        found = Token(secrets.token_urlsafe(_BYTES_OF_A_TOKEN), TokenOrigin.MADE)
    SECRETS.add(found.secret)
    return found


def _read(file: str) -> str:
    try:
        with Path(file).open(encoding="utf-8") as opened:
            return opened.read(_READ_AT_MOST)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "no text in UTF-8"
        raise _refused(f"the file {file}", why) from None


def _checked(text: str, where: str) -> str:
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise _refused(where, f"{len(token)} characters that do not fit")
    return token


def _refused(where: str, found: str) -> TidegateError:
    return TidegateError(
        Code.SETTING_VALUE,
        expected=f"a token: {_SHORTEST} characters or more, of letters, digits and ._~+/-",
        found=found,
        where=where,
        next_step="python -c 'import secrets; print(secrets.token_urlsafe(32))' > FILE; chmod 600 FILE",
    )


class TooManyWrong(Exception):
    """An address has sent so many wrong tokens that none of it is compared. `retry_seconds`: for how long."""

    def __init__(self, retry_seconds: float) -> None:
        super().__init__(f"too many wrong tokens; again in {retry_seconds:.0f} s")
        self.retry_seconds = retry_seconds


class Tokens:
    """Compares the tokens of requests. Any thread may ask. `token`: None if there is none."""

    def __init__(self, token: Token | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.token = token
        self._clock = clock
        self._lock = threading.Lock()
        self._wrong: dict[str, deque[float]] = {}

    def given(self, authorizations: Sequence[str], address: str) -> TokenGiven:
        """The token of a request with these `Authorization` headers. Raises `TooManyWrong`."""
        if not authorizations:
            return TokenGiven.NONE
        self._demand_few(address)
        bearer = _BEARER.fullmatch(authorizations[0]) if len(authorizations) == 1 else None
        if bearer is not None and self.token is not None and _equal(bearer["token"], self.token.secret):
            return TokenGiven.RIGHT
        self._note_wrong(address)
        return TokenGiven.WRONG

    def _demand_few(self, address: str) -> None:
        with self._lock:
            times = self._wrong.get(_network(address))
            if times is None:
                return
            now = self._clock()
            while times and times[0] <= now - _MINUTE_SECONDS:
                times.popleft()
            if len(times) >= WRONG_AT_MOST:
                raise TooManyWrong(times[0] + _MINUTE_SECONDS - now)

    def _note_wrong(self, address: str) -> None:
        with self._lock:
            network = _network(address)
            if network not in self._wrong and len(self._wrong) >= _ADDRESSES_AT_MOST:
                del self._wrong[next(iter(self._wrong))]
            self._wrong.setdefault(network, deque(maxlen=WRONG_AT_MOST)).append(self._clock())


def _equal(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())


def _network(address: str) -> str:
    """Who is counted: an IPv4 address; of IPv6 the network of 64 bits, as each host has all addresses of one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and not parsed.is_loopback and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)
