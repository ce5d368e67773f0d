"""Who may make requests: the Host allow-list, foreign origins, the bearer token.

A web page that a person visits can reach 127.0.0.1 (DNS rebinding, forms, `no-cors` fetches), so
the network address alone proves nothing.

https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from __future__ import annotations

import hmac

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.auditing import note_refusal
from api.errors import problem
from api.protocol import HELD, PEER_UID, PRINCIPAL
from service.access.principal import ADMIN, OF_PAGES, Principal
from service.access.token_secrets import PREFIX
from service.daemon import Daemon
from service.errors import Unauthorized

READABLE = (
    "ETag, Location, Retry-After, Content-Range, Repr-Digest, Honed-Not-Loaded, Honed-Version, "
    "Honed-Dtype, Honed-Shape"
)
"""Response headers that the page may read."""
ALLOWED = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, If-None-Match, If-Range, "
    "Last-Event-ID, Range",
    "Access-Control-Max-Age": "600",
}


def preflight(scope: Scope) -> Response | None:
    """The answer to a CORS preflight request of an allowed page; None for other requests."""
    headers = Headers(scope=scope)
    if scope["method"] != "OPTIONS" or "access-control-request-method" not in headers:
        return None
    asked = headers.get("access-control-request-private-network")
    private = {"Access-Control-Allow-Private-Network": "true"} if asked else {}
    return Response(status_code=204, headers={**ALLOWED, **private})


def refusal_of(principal: Principal) -> Response | None:
    """The refusal of a page's token with scopes beyond those of apps, in case it is stolen."""
    more = sorted(scope.value for scope in principal.scopes - OF_PAGES)
    if not more:
        return None
    return problem(
        "foreign_origin",
        "a web page uses this daemon with a narrow token only: this one may also do "
        f"{', '.join(more)}; make one by `honed tokens create`, with scopes of "
        f"{', '.join(sorted(scope.value for scope in OF_PAGES))}",
    )


def readable_by(origin: str, send: Send) -> Send:
    """Wrap `send` so that a page of this origin may read the answers."""

    async def send_readable(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = READABLE
            headers.add_vary_header("Origin")
        await send(message)

    return send_readable


INPUT_PATH = "/v1/device/input"
"""Any logged-in user may report input here; the kernel tells the session that a report is from."""
OPEN_PATHS = frozenset(
    {"/", "/healthz", "/readyz", "/openapi.json", "/docs", "/dashboard", "/v1/sign-in"}
)
"""Answered without a token. They reveal no data; a browser sends no token when it opens a page, and
signing in takes a code instead.
"""
OPEN_PREFIXES = ("/docs/", "/dashboard/")
CONSOLE = "/dashboard"
REFUSED = {401: "unauthorized", 403: "foreign_origin", 421: "wrong_host"}
"""The code of a refusal by its status."""
SAFE_SITES = frozenset({"same-origin", "none"})
DEFAULT_PORTS = {"http": 80, "https": 443}
"""By scheme; browsers leave these out of Host and Origin."""


class Guard:
    """ASGI middleware that lets only the device's own apps in.

    allowed_hosts: names accepted in Host besides the loopback ones. One with a port is the address
    of a proxy: pages of it are ours, also those that it serves with TLS.
    allowed_origins: of web apps that may make requests with a narrow token. takes_reports: whether
    any local user may report input, needed where a service sees none.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        allowed_hosts: tuple[str, ...],
        allowed_origins: tuple[str, ...],
        takes_reports: bool,
    ) -> None:
        self._app = app
        self._allowed_origins = frozenset(allowed_origins)
        self._open_paths = OPEN_PATHS | ({INPUT_PATH} if takes_reports else frozenset())
        hosts = set(map(str.lower, allowed_hosts))
        proxies = set(filter(_has_port, hosts))
        self._names = {"localhost", "127.0.0.1", "[::1]", *hosts - proxies}
        self._of_proxies = {
            f"{scheme}://{host}".removesuffix(f":{port}")
            for scheme, port in DEFAULT_PORTS.items()
            for host in proxies
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a refused request, or pass it on."""
        page = self._allowed_page(scope)
        if page is not None:
            send = readable_by(page, send)
        if (refusal := self._refusal(scope, page)) is not None:
            note_refusal(scope, REFUSED[refusal.status_code])
            await refusal(scope, receive, send)
        elif page is not None and (answer := preflight(scope)) is not None:
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _allowed_page(self, scope: Scope) -> str | None:
        """The origin of a request, if it is one of those allowed to web apps."""
        origins = Headers(scope=scope).getlist("origin")
        is_allowed = len(origins) == 1 and origins[0].lower() in self._allowed_origins
        return origins[0] if is_allowed else None

    def _refusal(self, scope: Scope, page: str | None) -> Response | None:
        """The refusal of a request, if any. page: the origin of an allowed web app making it."""
        headers = Headers(scope=scope)
        origins = self._of_proxies | {f"{scope['scheme']}://{host}" for host in self._hosts(scope)}
        host = headers.get("host", "").lower()
        if not origins & {f"http://{host}", f"https://{host}"}:
            port = "" if PEER_UID in scope["extensions"] else f":{scope['server'][1]}"
            return problem(
                "wrong_host",
                f"the Host header is not one that this daemon answers to: localhost{port}, or what "
                "HONED_ALLOWED_HOSTS names",
            )
        if page is None and (refusal := _foreign(scope, headers, origins)) is not None:
            return refusal
        scope[PRINCIPAL] = None
        is_preflight = page is not None and preflight(scope) is not None
        path = scope["path"]
        if is_preflight or path in self._open_paths or path.startswith(OPEN_PREFIXES):
            return None
        try:
            scope[PRINCIPAL] = principal = _principal(scope, headers)
        except Unauthorized as error:
            sent = bool(headers.get("authorization"))
            return problem(error.code, error.detail, headers={"WWW-Authenticate": challenge(sent)})
        scope["extensions"][HELD]["by"](principal)
        return None if page is None else refusal_of(principal)

    def _hosts(self, scope: Scope) -> set[str]:
        """The accepted values of Host without a proxy. The called address is one: a page of another
        origin that reaches it sends its own name.
        """
        if PEER_UID in scope["extensions"]:
            return self._names  # a Unix socket has no port
        address, port = scope["server"]
        address = address.removeprefix("::ffff:")  # IPv4, on a socket that takes both
        names = self._names | {f"[{address}]" if ":" in address else address}
        with_port = {f"{name}:{port}" for name in names}
        return with_port | names if port == DEFAULT_PORTS[scope["scheme"]] else with_port


def _foreign(scope: Scope, headers: Headers, origins: set[str]) -> Response | None:
    """The refusal of a request from a web page that is not ours."""
    if not {origin.lower() for origin in headers.getlist("origin")} <= origins:
        return problem(
            "foreign_origin",
            "web pages of other origins may not use this daemon, unless HONED_ALLOWED_ORIGINS "
            "names them",
        )
    sites = {site.lower() for site in headers.getlist("sec-fetch-site")}
    if not sites <= SAFE_SITES and not _opens_console(scope, headers):
        return problem("foreign_origin", "web pages of other sites may not use this daemon")
    return None


def _opens_console(scope: Scope, headers: Headers) -> bool:
    """Whether a tab is led to the console, which has no data of its own and cannot be framed.

    `honed dashboard` opens a file that does so.
    """
    path = scope["path"]
    is_page = headers.getlist("sec-fetch-dest") == ["document"] and scope["method"] == "GET"
    return is_page and (path == CONSOLE or path.startswith(f"{CONSOLE}/"))


def challenge(sent: bool) -> str:
    """WWW-Authenticate as in RFC 6750, section 3. sent: whether there were credentials."""
    return 'Bearer realm="honed"' + (', error="invalid_token"' if sent else "")


def _principal(scope: Scope, headers: Headers) -> Principal:
    """The principal of a request. Raises Unauthorized."""
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    daemon: Daemon = scope["app"].state.daemon
    if not scheme and PEER_UID in scope["extensions"]:
        return _user(scope["extensions"][PEER_UID]["uid"], daemon)
    if scheme.lower() != "bearer" or not (secret := secret.strip()):
        raise Unauthorized(
            "send a token as `Authorization: Bearer …`: that of DATA_DIR/admin.token, "
            "or one of `honed tokens create`"
        )
    if hmac.compare_digest(secret.encode(), scope["app"].state.token.encode()):
        return ADMIN
    if secret.startswith(PREFIX):
        return daemon.tokens.principal(secret)
    raise Unauthorized("this is neither the token of DATA_DIR/admin.token nor one that was made")


def _user(uid: int, daemon: Daemon) -> Principal:
    """The principal of a user of the Unix socket. Raises Unauthorized."""
    known = daemon.peers.get(uid)
    if known is None:
        raise Unauthorized(
            f"user {uid} may do nothing here without a token: name the user in HONED_SOCKET_USERS, "
            "or send a token of `honed tokens create` as `Authorization: Bearer …`"
        )
    return known


def _has_port(name: str) -> bool:
    return ":" in name.rpartition("]")[2]
