"""A client of the daemon's HTTP API, with no more rights than any app."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cli.errors import Failure, Unreachable, from_response
from storage.database.codec import dump
from storage.errors import in_words

if TYPE_CHECKING:
    import ssl

    import httpx

    from service.settings import Settings

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 600.0
"""The longest silence of a request: checking a large model."""
READY_TIMEOUT_S = 30.0
"""systemd listens for a service that does not start, and its socket takes a request for ever."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""Addresses to listen on only → the one to connect to instead."""


def model_path(name: str, *parts: object) -> str:
    """The path of a model, or of a part of it: `model_path("digits", "versions", 2)`.

    Raises Failure for a name that leads elsewhere: from `…/aliases/..` a request goes to the model.
    """
    for part in (name, *parts):
        if part in ("", ".", ".."):
            raise Failure(f"{part!r} names nothing; give the name of what is meant")
    return "/".join(["/v1/models", *(quote(str(part), safe="") for part in (name, *parts))])


def _written(options: dict[str, Any]) -> dict[str, Any]:
    """A request's options with its JSON as text. Raises Failure for NaN and infinities."""
    if (body := options.pop("json", None)) is None:
        return options
    try:
        text = dump(body)
    except ValueError as error:
        raise Failure("a number is NaN or infinite; give a finite one") from error
    headers = {"Content-Type": "application/json"}
    return {**options, "content": text.encode(), "headers": headers}


class Client:
    """Makes requests to one daemon; every failure is raised as a readable `Failure`.

    url: None for this machine's daemon: by its Unix socket if there is one, where the kernel
    identifies the user and no token is sent, else by the address in the settings. token: None for
    that in this machine's token file, which is never sent to another machine.
    """

    def __init__(self, *, url: str | None = None, token: str | None = None) -> None:
        self._given_url = url
        self._given_token = token

    @cached_property
    def settings(self) -> Settings:
        """The settings that a daemon started here would have."""
        from service.settings import load_settings

        return load_settings()

    @cached_property
    def url(self) -> str:
        """The daemon's address, without a slash at the end."""
        if self._given_url:
            return self._given_url.rstrip("/")
        host = ANY_ADDRESS.get(self.settings.host, self.settings.host)
        scheme = "http" if self.settings.tls_certificate is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.settings.port}"

    @cached_property
    def socket(self) -> Path | None:
        """The Unix socket of this machine's daemon, if it listens on one and no URL was given.

        Raises Failure if another user's program listens there.
        """
        if self._given_url:
            return None
        from cli.listener import living_socket

        return living_socket(self.settings)

    @property
    def endpoint(self) -> str:
        """The daemon's address for people: the URL, or `unix:` and the socket's path."""
        return self.url if self.socket is None else f"unix:{self.socket}"

    @property
    def token_file(self) -> Path:
        """Where this machine's daemon keeps the admin token."""
        return self.settings.data_dir / "admin.token"

    def close(self) -> None:
        """Close the connections; the next request opens them anew."""
        if "_http" in self.__dict__:
            self.__dict__.pop("_http").close()

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        """The JSON answer to a GET; parameters that are None are left out."""
        known = {name: value for name, value in params.items() if value is not None}
        return self.ask("GET", path, params=known)

    def post(self, path: str, body: Any = None) -> dict[str, Any]:
        """The JSON answer to a POST of a JSON body."""
        return self.ask("POST", path, json=body)

    def patch(self, path: str, body: Any) -> dict[str, Any]:
        """The JSON answer to a PATCH of a JSON body."""
        return self.ask("PATCH", path, json=body)

    def put(self, path: str, body: Any = None) -> dict[str, Any]:
        """The JSON answer to a PUT of a JSON body."""
        return self.ask("PUT", path, json=body)

    def ask(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """The JSON answer, which is an object on all routes. options: as for `request`."""
        answer: dict[str, Any] = self.request(method, path, **options).json()
        return answer

    def items(
        self, path: str, *, after: int | None = None, **params: Any
    ) -> Iterator[dict[str, Any]]:
        """Every item of a list, page after page; after: only those behind this one."""
        cursor: int | str | None = after
        while True:
            page = self.get(path, cursor=cursor, **params)
            yield from page["items"]
            cursor = page["next"]
            if cursor is None:
                return

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """The answer with its body. Raises Failure for status 400 and above."""
        with self._reaching():
            response = self._http.request(method, path, **_written(options))
        return self._checked(response)

    @contextmanager
    def stream(self, method: str, path: str, **options: Any) -> Iterator[httpx.Response]:
        """An answer whose body is read in pieces."""
        asked = _written(options)
        with self._reaching(), self._http.stream(method, path, **asked) as response:
            if response.is_error:
                response.read()
            yield self._checked(response)

    def answer(self, path: str) -> httpx.Response | None:
        """The answer to a GET without a token, whatever its status; None if there is none."""
        import httpx

        try:
            with self._connecting({}, timeout=httpx.Timeout(CONNECT_TIMEOUT_S)) as asking:
                return asking.get(path)
        except (httpx.TransportError, httpx.InvalidURL):
            return None

    def credentials(self) -> dict[str, str]:
        """The headers that authenticate a request."""
        token = (self._given_token or "").strip() or self._token_of_this_machine()
        if token and not (token.isascii() and token.isprintable()):
            source = "--token, HONED_TOKEN" if self._given_token else self.token_file
            raise Failure(
                f"the token ({source}) holds a character that no token has; "
                "it is the one line of admin.token in the daemon's data folder"
            )
        return {"Authorization": f"Bearer {token}"} if token else {}

    @cached_property
    def _http(self) -> httpx.Client:
        import httpx

        timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        asking = self._connecting(self.credentials(), timeout=timeout)
        asking.get("/healthz", timeout=READY_TIMEOUT_S)
        return asking

    def _connecting(self, headers: dict[str, str], *, timeout: httpx.Timeout) -> httpx.Client:
        import httpx

        transport = None if self.socket is None else httpx.HTTPTransport(uds=str(self.socket))
        return httpx.Client(
            base_url=self.url if self.socket is None else "http://localhost",
            headers=headers,
            timeout=timeout,
            transport=transport,
            verify=self._verification(),
            trust_env=False,  # no proxy between an app and its device
        )

    def _verification(self) -> ssl.SSLContext | bool:
        """Trust exactly the certificate of this machine's daemon, whoever has signed it.

        Elsewhere: whom this system trusts, and SSL_CERT_FILE names.
        """
        if self.socket is not None or not self.url.startswith("https:"):
            return False  # nothing to verify, and reading CA certificates takes long
        import ssl

        if self._given_url or self.settings.tls_certificate is None:
            import httpx

            trusted = httpx.create_ssl_context(trust_env=False)
            trusted.load_default_certs()
            return trusted
        try:
            own = self.settings.tls_certificate.read_text("ascii")
        except OSError as error:
            raise Failure(f"HONED_TLS_CERTIFICATE: {in_words(error)}; or give --url") from error
        end = "-----END CERTIFICATE-----\n"
        context = ssl.create_default_context(cadata=own.partition(end)[0] + end)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    def _token_of_this_machine(self) -> str | None:
        import httpx

        if self.socket is not None:
            return None  # the kernel tells the daemon which user connects
        if httpx.URL(self.url).host not in LOOPBACK | {self.settings.host}:
            return None
        try:
            token = self.token_file.read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Failure(
                f"cannot read the token file {self.token_file}: {error.strerror}; "
                "run as the daemon's user, or give --token"
            ) from error
        self._refuse_strangers()
        return token

    def _refuse_strangers(self) -> None:
        """Raises Failure if another user's program has the port, which must not get the token."""
        import httpx

        from cli.listener import strangers

        url = httpx.URL(self.url)
        owners = strangers(url.host, url.port or 80, self.settings)
        if owners:
            raise Failure(
                f"a program of another user (uid {min(owners)}) listens at {self.url}; "
                "the token was not sent\n"
                "Stop that program and start the daemon, or give --token if it is the right one"
            )

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise Failure(
                f"--url {self.url}: {error}; it looks like http://127.0.0.1:8471"
            ) from error
        except httpx.ConnectError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise Unreachable(
                    f"the certificate at {self.endpoint} is not trusted: {error}\n"
                    "Name the file of who has signed it in SSL_CERT_FILE"
                ) from error
            raise Unreachable(
                f"no daemon answers at {self.endpoint} ({error})\n"
                "Start one with: honed serve\n"
                "Or say where it is: --url, or the variable HONED_URL"
            ) from error
        except httpx.ReadTimeout as error:
            raise Unreachable(
                f"no answer came in time from {self.endpoint}, where somebody listens\n"
                "As a service it may still be starting, or fail to: systemctl status honed"
            ) from error
        except httpx.TransportError as error:
            why = str(error) or type(error).__name__
            raise Unreachable(f"the connection to {self.endpoint} broke: {why}") from error

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if not response.is_error:
            return response
        failure = from_response(response)
        if response.status_code == 401:
            raise failure.within(
                "",
                f"\nThe token comes from --token, HONED_TOKEN or {self.token_file}, "
                "which the daemon writes; if its data folder is another, set HONED_DATA_DIR",
            )
        raise failure
