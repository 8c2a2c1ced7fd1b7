"""Serves the page: in the foreground for `tidegate ui`, beside a job in a thread that never delays the job's end."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from tidegate.core.errors import Code, TidegateError
from tidegate.operate import Folder
from tidegate.settings.config import Settings
from tidegate.web.application import build
from tidegate.web.connection import BoundedConnection
from tidegate.web.guard import Addresses
from tidegate.web.guarding import HEAD_BYTES_AT_MOST, LOOPBACK_NAMES, PageEntry
from tidegate.web.routes import ROUTES
from tidegate.web.routing import Route
from tidegate.web.site import Site
from tidegate.web.tokens import TOKEN_VARIABLE, Token, TokenOrigin, Tokens, find_token

_CONNECTIONS_AT_MOST = 500
_KEPT_ALIVE_SECONDS = 15
_GRACE_SECONDS = 1
"""How long answers that are under way may take when the server ends: events are sent without an end."""
_NOBODY = f"none, so it only shows: for actions set {TOKEN_VARIABLE} or ui.token_file"
_EVERYWHERE = frozenset({"0.0.0.0", "::"})


class WebPage:
    """The page at one address, which it takes at once. `token` is None if every action is refused. A `with` closes it.

    `address`: the `host:port` that it has taken. `url`: where browsers find it.
    """

    def __init__(self, settings: Settings, token: Token | None) -> None:
        """Raises SETTINGS_CLASH for an address that other machines reach without TLS or a proxy, or without a token;
        PAGE_UNUSABLE if the address is taken or does not exist, and for certificates that cannot be read."""
        self.token = token
        self._settings = settings
        self._socket, is_here = _bound(settings)
        try:
            _demand_safe(settings, token, is_here=is_here)
            self._server = uvicorn.Server(_config(self._answer, settings))
        except BaseException:
            self._socket.close()
            raise
        scheme = "http" if settings.ui_tls_cert is None else "https"
        self._entry = PageEntry(
            Addresses(scheme, _names(settings.ui_host), any_number=not is_here, proxy=settings.ui_proxy),
            Tokens(token),
            from_elsewhere=not is_here or settings.ui_proxy is not None,
        )
        address, port = self._socket.getsockname()[:2]
        self.address = f"{_in_url(address)}:{port}"
        host = socket.gethostname() if settings.ui_host in _EVERYWHERE else settings.ui_host
        self.url = f"{scheme}://{_in_url(host)}:{port}/" if settings.ui_proxy is None else f"{settings.ui_proxy}/"
        self._application: ASGIApp | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> WebPage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def new_token(self) -> str | None:
        """The token, if it was made at this start. A token that was set is known."""
        return None if self.token is None or self.token.origin is not TokenOrigin.MADE else self.token.secret

    @property
    def announced(self) -> str:
        """The line that a start shows, once. With a new token it is for a screen, not for a log."""
        return f"page: {self.url}  token: {_NOBODY if self.token is None else self.token.shown}"

    def start(self, folder: Folder, routes: Sequence[Route] = ROUTES) -> None:
        """Serve the jobs in this folder, in a thread that ends with the process. Requests so far wait for that."""
        self._application = build(Site.of(folder, self._settings.ui_programs), routes, self._entry)
        self._thread = threading.Thread(target=self._serve, name="tidegate-page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End, without waiting: nothing that ends is delayed by its page."""
        self._server.should_exit = True
        if self._thread is None:
            self._socket.close()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the server has ended. False if `timeout_seconds` passed first."""
        if self._thread is not None:
            self._thread.join(timeout_seconds)
        return self._thread is None or not self._thread.is_alive()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._application is not None:
            await self._application(scope, receive, send)


def open_page(settings: Settings, environment: Mapping[str, str] = os.environ, *, new_token: bool = True) -> WebPage:
    """The page with the token of the settings or the environment, else with a new one.

    `new_token` is False where no person reads a new one: then every action is refused. Raises what `WebPage` raises,
    and SETTING_VALUE for a token that does not fit.
    """
    is_set = settings.ui_token_file is not None or TOKEN_VARIABLE in environment
    token = find_token(settings.ui_token_file, environment) if is_set or new_token else None
    return WebPage(settings, token)


def _config(application: ASGIApp, settings: Settings) -> uvicorn.Config:
    config = uvicorn.Config(
        application,
        http=BoundedConnection,
        ws="none",
        loop="asyncio",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS_AT_MOST,
        h11_max_incomplete_event_size=HEAD_BYTES_AT_MOST,
        timeout_keep_alive=_KEPT_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=settings.ui_tls_cert,
        ssl_keyfile=settings.ui_tls_key,
    )
    try:
        config.load()
    except OSError as error:  # also of OpenSSL
        raise TidegateError(
            Code.PAGE_UNUSABLE,
            expected="a certificate and its private key, in PEM",
            found=error.strerror or type(error).__name__,
            where=f"{settings.ui_tls_cert}, {settings.ui_tls_key or 'with the key in it'}",
            next_step="see whether this user may read both files, and whether they belong together",
        ) from error
    return config


def _bound(settings: Settings) -> tuple[socket.socket, bool]:
    """A socket at the address of the settings, and whether only this machine reaches it."""
    host, port = settings.ui_host, settings.ui_port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        bound = socket.create_server(address[:2], family=family)
    except OSError as error:
        raise _unusable(host, port, error) from error
    return bound, ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback


def _unusable(host: str, port: int, error: OSError) -> TidegateError:
    taken = error.errno == errno.EADDRINUSE
    return TidegateError(
        Code.PAGE_UNUSABLE,
        expected="a free port at an address of this machine",
        found="another program has this port" if taken else error.strerror or type(error).__name__,
        where=f"{_in_url(host)}:{port}",
        next_step="choose another port: --port, or ui.port; 0 takes any free one" if taken else "name another ui.host",
    )


def _demand_safe(settings: Settings, token: Token | None, *, is_here: bool) -> None:
    if is_here and settings.ui_proxy is None:
        return
    if settings.ui_tls_cert is None and settings.ui_proxy is None:
        raise TidegateError(
            Code.SETTINGS_CLASH,
            expected="TLS, or the origin of a proxy that has it, where other machines reach the page",
            found="neither",
            where=f"ui.host = {settings.ui_host}",
            next_step="set ui.tls_cert and ui.tls_key, or ui.proxy; or use a tunnel: ssh -L 8081:localhost:8081 HOST",
        )
    if token is None:
        raise TidegateError(
            Code.SETTINGS_CLASH,
            expected=f"a token, in ui.token_file or {TOKEN_VARIABLE}, where other machines reach the page",
            found="none, and no person reads a new one",
            where=f"ui.host = {settings.ui_host}",
            next_step="write a token of 20 characters or more into a file, and set ui.token_file",
        )


def _names(host: str) -> frozenset[str]:
    """The names under which browsers may ask: of this machine, and the one that the operator has given."""
    given = frozenset({_in_url(host).lower()}) - _EVERYWHERE
    return (
        LOOPBACK_NAMES if given <= LOOPBACK_NAMES and given else LOOPBACK_NAMES | given | {socket.gethostname().lower()}
    )


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
