"""Where a source is: a tag of an OCI registry, or a file of a web server."""

from __future__ import annotations

import ipaddress
import re
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

_HOST = r"(?P<host>(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?)"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_OCI = re.compile(
    rf"oci://{_HOST}/(?P<repository>{_PART}(?:/{_PART})*):(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{{0,127}})"
)
"""Source: the OCI distribution specification, "Pulling manifests"."""
MOST_CHARACTERS = 2000
DOCKER_HUB = "registry-1.docker.io"
"""The registry that tools mean by docker.io."""
DEFAULT_PORTS = {"https": 443, "http": 80}


class Source(Struct, frozen=True):
    """origin: scheme, host and port. path: of the file, or the registry's repository. tag: the
    registry's, None of a file.
    """

    kind: Literal["oci", "https"]
    origin: str
    path: str
    tag: str | None = None

    @property
    def scheme(self) -> str:
        """https, or http for this device itself."""
        return self.origin.partition(":")[0]

    @property
    def host(self) -> str:
        """With its port, if one is named."""
        return urlsplit(self.origin).netloc


def parsed(text: str) -> Source:
    """Raises ValueError, which says what would be right."""
    if len(text) > MOST_CHARACTERS or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("write the address in printable ASCII, without spaces")
    if text.startswith("oci://"):
        address = _OCI.fullmatch(text)
        if address is None:
            raise ValueError(
                "name registry, repository and tag: oci://registry.example/team/digits:stable"
            )
        # A registry on this device is asked without TLS, as container tools do.
        scheme = "http" if is_loopback(address["host"]) else "https"
        named = address["host"].lower()
        host = DOCKER_HUB if named == "docker.io" else named
        return Source("oci", f"{scheme}://{host}", address["repository"], address["tag"])
    return _file(text)


def _file(text: str) -> Source:
    parts = urlsplit(text)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.port == 0:
        raise ValueError(
            "a source is oci://registry/repository:tag or https://host/path/model.onnx"
        )
    if parts.scheme == "http" and not is_loopback(parts.netloc):
        raise ValueError("plain http is for this device itself (localhost); write https://")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(
            "leave out user, password, ? and #: addresses are shown; credentials belong into the "
            "file of HONED_REGISTRY_CREDENTIALS"
        )
    if parts.path in ("", "/"):
        raise ValueError("name the file: https://host/path/model.onnx")
    return Source("https", f"{parts.scheme}://{parts.netloc.lower()}", parts.path)


def is_loopback(netloc: str) -> bool:
    """Whether a host, perhaps with a port, is this device itself: only then TLS may be missing."""
    host = urlsplit(f"//{netloc}").hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def place(url: str) -> tuple[str, int]:
    """Host and port."""
    parts = urlsplit(url)
    return (parts.hostname or "").lower(), parts.port or DEFAULT_PORTS.get(parts.scheme, 0)


def is_address(url: str) -> bool:
    """Whether `place` can tell its host and port."""
    try:
        return bool(place(url)[0])
    except ValueError:  # brackets of no IPv6 address, a port of no number
        return False
