"""In front of everything that is served: finds out who asks, obeys the table of `guard`, and puts the headers on each
answer that keep other sites away."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.web.acts import log_wrong_token
from tidegate.web.guard import GUARD, Addresses, Admission, Caller, Sought, caller_of
from tidegate.web.problems import RequestProblem, as_response
from tidegate.web.routing import Access, Acting
from tidegate.web.tokens import TOKEN_VARIABLE, Tokens, TooManyWrong

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""On each answer. No answer allows another origin anything: there is no `Access-Control-` header."""

HEAD_BYTES_AT_MOST = 16 * 1024
WRONG_TOKEN_SECONDS = 1.0
"""How long the answer to a wrong token takes."""
_VISITOR = "tidegate.visitor"
_WHO_CHARACTERS = 100
_BEARER = {"WWW-Authenticate": 'Bearer realm="tidegate"'}
_WRONG_BEARER = {"WWW-Authenticate": 'Bearer realm="tidegate", error="invalid_token"'}

_SOUGHT: Mapping[tuple[bool, Access], Sought] = {
    (False, Access.PAGE): Sought.PAGE_HERE,
    (False, Access.READ): Sought.VIEW_HERE,
    (False, Access.ACT): Sought.ACT_HERE,
    (True, Access.PAGE): Sought.PAGE_ANYWHERE,
    (True, Access.READ): Sought.VIEW_ANYWHERE,
    (True, Access.ACT): Sought.ACT_ANYWHERE,
}
"""By whether other machines reach the server, and what a route lets its caller do."""


@dataclass(frozen=True, slots=True)
class PageEntry:
    """Where a server is reached, and by whom. `from_elsewhere`: other machines reach it, by its address or a proxy."""

    addresses: Addresses
    tokens: Tokens
    from_elsewhere: bool = False

    @property
    def acting(self) -> Acting:
        return Acting.REFUSED if self.tokens.token is None else Acting.TOKEN


LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
NOBODY_ACTS = PageEntry(Addresses("http", LOOPBACK_NAMES), Tokens(None))
"""Programs and browsers of this machine may look."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks. `who`: the address for the log."""

    entry: PageEntry
    caller: Caller
    who: str

    @classmethod
    def of(cls, scope: Scope) -> Visitor:
        """Who asks with this request, which came through `Guarding`."""
        return scope[_VISITOR]

    def may(self, access: Access) -> bool:
        return self._admission(access) is Admission.ALLOWED

    def demand(self, access: Access) -> None:
        """Raises `RequestProblem` if the caller may not do this."""
        admission = self._admission(access)
        if admission is not Admission.ALLOWED:
            status, detail, headers = _REFUSALS[admission]
            raise RequestProblem(status, detail, _next_step(admission, self.entry.acting), headers)

    def _admission(self, access: Access) -> Admission:
        return GUARD.cell(_SOUGHT[self.entry.from_elsewhere, access], self.caller)


class Guarding:
    """Lets no request in that the table refuses whatever it asks for. The routes ask for the rest: each has its
    `Access`."""

    def __init__(self, app: ASGIApp, entry: PageEntry) -> None:
        self._app = app
        self._entry = entry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = _with_headers(send)
        try:
            scope[_VISITOR] = visitor = self._visitor(scope)
            if visitor.caller is Caller.WITH_A_WRONG_TOKEN:
                log_wrong_token(visitor.who)
                await asyncio.sleep(WRONG_TOKEN_SECONDS)
            visitor.demand(Access.PAGE)
        except RequestProblem as refused:
            await as_response(refused.problem, refused.headers)(scope, receive, answer)
        else:
            await self._app(scope, receive, answer)

    def _visitor(self, scope: Scope) -> Visitor:
        headers = _headers(scope)
        _demand_sound(scope, headers)
        peer = scope["client"][0] if scope["client"] else "unknown"
        forwarded = _forwarded(headers) if self._entry.addresses.proxy is not None else ""
        try:
            token = self._entry.tokens.given(headers.get("authorization", ()), forwarded or peer)
        except TooManyWrong as error:
            raise RequestProblem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many wrong tokens came from this address",
                "wait a minute, then send the right token",
                {"Retry-After": f"{error.retry_seconds:.0f}"},
            ) from None
        caller = caller_of(self._entry.addresses, headers, token)
        return Visitor(self._entry, caller, f"{forwarded} through {peer}" if forwarded else peer)


def _demand_sound(scope: Scope, headers: Mapping[str, Sequence[str]]) -> None:
    """Refuses a large head, which h11 takes if it arrives at once, and a body of two lengths: a proxy may believe the
    other one, and take a part of the body for another request (RFC 9112, 6.1)."""
    size = len(scope["raw_path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) for name, value in scope["headers"])
    if size > HEAD_BYTES_AT_MOST:
        found = f"the head of the request has more than {HEAD_BYTES_AT_MOST} bytes"
        raise RequestProblem(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, found)
    if "transfer-encoding" in headers and "content-length" in headers:
        raise RequestProblem(HTTPStatus.BAD_REQUEST, "the request has both a length and a transfer coding")


def _headers(scope: Scope) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def _forwarded(headers: Mapping[str, Sequence[str]]) -> str:
    """The address that the stated proxy has seen: it appends it to what the client claims."""
    claimed = ",".join(headers.get("x-forwarded-for", ()))
    return claimed.rpartition(",")[2].strip()[:_WHO_CHARACTERS]


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(SECURITY_HEADERS)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sent


_REFUSALS: Mapping[Admission, tuple[HTTPStatus, str, Mapping[str, str] | None]] = {
    Admission.MISDIRECTED: (HTTPStatus.MISDIRECTED_REQUEST, "the request names another host", None),
    Admission.FOREIGN: (HTTPStatus.FORBIDDEN, "the request comes from a page of another site", None),
    Admission.TOKEN_NEEDED: (HTTPStatus.UNAUTHORIZED, "the request needs the token", _BEARER),
    Admission.TOKEN_WRONG: (HTTPStatus.UNAUTHORIZED, "the token is not the right one", _WRONG_BEARER),
}
"""By admission: status, what was found, headers."""
_SET_A_TOKEN = f"start the page with a token, in the file that ui.token_file names or in {TOKEN_VARIABLE}"


def _next_step(admission: Admission, acting: Acting) -> str:
    match admission, acting:
        case ((Admission.TOKEN_NEEDED | Admission.TOKEN_WRONG), Acting.REFUSED):
            return _SET_A_TOKEN
        case Admission.TOKEN_NEEDED, Acting.TOKEN:
            return "send the header Authorization: Bearer TOKEN, with the token that was shown at the start"
        case Admission.TOKEN_WRONG, Acting.TOKEN:
            return "send the token that was shown at the start: without a token file each start makes another one"
        case Admission.MISDIRECTED, _:
            return "use the address that was shown at the start; behind a proxy, start with --proxy ORIGIN"
        case _:
            return "open the page at its own address"
