"""Requests to a source: TLS always, redirects only where allowed, answers of bounded length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
from msgspec import Struct

from service.follow.errors import RedirectRefused, SourceRefused, SourceUnreachable
from service.follow.source import Source, is_address, is_loopback, place

CONNECT_S, READ_S = 15.0, 30.0
MOST_REDIRECTS = 5
PLAIN = {"Accept-Encoding": "identity", "User-Agent": "honed"}
"""A compressed answer could be endless, and has another digest than the file."""
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed later."""

Authorize = Callable[[str], str]
"""From a `WWW-Authenticate` header to an `Authorization` header."""


class Answer(Struct, frozen=True):
    """A whole answer. headers: by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Web:
    """A client for one source. hosts: others that it may redirect to.

    Proxies and certificate authorities are those of the environment (HTTPS_PROXY, SSL_CERT_FILE).
    """

    def __init__(self, source: Source, hosts: Iterable[str]) -> None:
        self._source = source
        self._allowed = {place(f"https://{host}") for host in hosts}
        # As the tools of registries do: what is on this device is asked without a proxy.
        direct = {f"all://{source.host}": None} if is_loopback(source.host) else {}
        timeout = httpx.Timeout(READ_S, connect=CONNECT_S)
        try:
            self._client = httpx.Client(follow_redirects=False, timeout=timeout, mounts=direct)
        except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
            raise SourceUnreachable(
                "the daemon's environment names proxies (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, "
                "NO_PROXY) or authorities (SSL_CERT_FILE, SSL_CERT_DIR) that cannot be used; of "
                f"proxies http:// and https:// can: {error}"
            ) from error
        self._authorization: dict[str, str] = {}
        self.authorize: Authorize | None = None
        self._logs_in = False

    @property
    def origin(self) -> str:
        """The source's scheme, host and port."""
        return self._source.origin

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        most_bytes: int,
        method: str = "GET",
        content: bytes | None = None,
    ) -> Answer:
        """Raises SourceRefused for a longer answer, SourceUnreachable, RedirectRefused."""
        body = b""
        with self.stream(url, headers, method=method, content=content) as response:
            for chunk in response.iter_raw():
                body += chunk
                if len(body) > most_bytes:
                    raise SourceRefused(
                        f"{_shown(url)} answers with more than {most_bytes} bytes where a short "
                        "document is expected"
                    )
            return Answer(response.status_code, dict(response.headers), body)

    @contextmanager
    def stream(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        method: str = "GET",
        content: bytes | None = None,
    ) -> Iterator[httpx.Response]:
        """An answer whose body has not been read, after redirects and a login if asked for.

        Raises SourceUnreachable, also while the body is read, SourceRefused, RedirectRefused.
        """
        for _ in range(MOST_REDIRECTS + 2):
            with self._sent(method, url, headers, content) as response:
                if response.status_code == 401 and self._log_in(url, response):
                    continue
                target = response.headers.get("location")
                if not response.is_redirect or target is None:
                    yield response
                    return
            sent_from, url = url, self._redirected(url, target)
            if place(url) != place(sent_from):  # a login is for one host
                headers = {name: text for name, text in headers.items() if name != "Authorization"}
        raise SourceRefused(f"{_shown(url)} redirects more than {MOST_REDIRECTS} times")

    def require_allowed(self, url: str, *, asked_by: str) -> None:
        """Raises RedirectRefused, SourceRefused if it is none. asked_by: who names it."""
        if not is_address(url):
            raise SourceRefused(f"{_shown(asked_by)} sends on to an address that is none")
        parts = urlsplit(url)
        is_own = place(url) == place(self._source.origin)
        # Plain HTTP only where the source itself is asked so, which is this device.
        is_safe = parts.scheme == "https" or (is_own and parts.scheme == self._source.scheme)
        if not is_safe or not (is_own or place(url) in self._allowed):
            raise RedirectRefused(
                f"{_shown(asked_by)} sends on to {_shown(url)}, which is not the source's host; if "
                'the vendor uses it, name it in "hosts"'
            )

    @contextmanager
    def _sent(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None
    ) -> Iterator[httpx.Response]:
        # Only the source itself learns who asks.
        own = self._authorization if place(url) == place(self._source.origin) else {}
        try:
            sent = {**PLAIN, **own, **headers}
            with self._client.stream(method, url, headers=sent, content=content) as response:
                yield response
        except httpx.TransportError as error:
            said = str(error) or type(error).__name__
            raise SourceUnreachable(f"{_shown(url)}: {said}") from error
        except (httpx.InvalidURL, httpx.StreamError, ValueError) as error:
            raise SourceRefused(f"{_shown(url)}: {error}") from error

    def _log_in(self, url: str, response: httpx.Response) -> bool:
        """Whether there is something new to try."""
        challenge = response.headers.get("www-authenticate")
        is_own = place(url) == place(self._source.origin)
        if self.authorize is None or challenge is None or self._logs_in or not is_own:
            return False
        self._logs_in = True  # the token's service may be at the same host
        try:
            authorization = {"Authorization": self.authorize(challenge)}
        finally:
            self._logs_in = False
        is_new = authorization != self._authorization
        self._authorization = authorization
        return is_new

    def _redirected(self, url: str, target: str) -> str:
        try:
            location = str(httpx.URL(url).join(target))
        except (httpx.InvalidURL, ValueError) as error:
            raise SourceRefused(f"{_shown(url)} redirects to no address: {error}") from error
        self.require_allowed(location, asked_by=url)
        return location


def require_found(answer: Answer | httpx.Response, url: str) -> None:
    """Raises SourceUnreachable or SourceRefused unless the answer has what was asked for."""
    status = answer.status if isinstance(answer, Answer) else answer.status_code
    if 200 <= status < 300:
        return
    if status in PASSING:
        raise SourceUnreachable(f"{_shown(url)} answers {status}")
    hint = ""
    if status in (401, 403):
        hint = ": the source wants a login; see HONED_REGISTRY_CREDENTIALS"
    raise SourceRefused(f"{_shown(url)} answers {status}{hint}")


def _shown(url: str) -> str:
    """Without its query, which may hold a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
