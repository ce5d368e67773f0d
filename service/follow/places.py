"""The two kinds of sources: what is offered there, and where its files are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta, Raw, Struct, field

from service.follow.errors import SourceRefused
from service.follow.source import Source
from service.follow.statement import ENVELOPE_TYPE, MOST_BYTES, SUFFIX, SignedFile
from service.follow.web import Web, require_found
from storage.database.codec import decode

MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.index.v1+json",  # a registry says 404 to who does not take it
)
MOST_MANIFEST_BYTES = 4 << 20
"""Source: the OCI distribution specification, "Pushing manifests"."""
MOST_MARK_CHARACTERS = 256
DIGEST = "sha256:"
TITLE = "org.opencontainers.image.title"
"""The annotation in which `oras push` puts a file's name."""


class Found(Struct, frozen=True):
    """What a source offers now. mark: by which the same answer is known again."""

    envelope: bytes
    mark: str


class Place(Protocol):
    """A source that can be asked."""

    def ask(self, mark: str | None) -> Found | None:
        """What is offered; None if it is what `mark` stands for. One small request then."""

    def url(self, file: SignedFile, *, beside: str = "") -> str:
        """Where a file is. beside: what a web server's address of the model is followed by."""


def place_of(source: Source, web: Web) -> Place:
    """The place of a source's kind."""
    return RegistryTag(source, web) if source.kind == "oci" else WebFile(source, web)


class WebFile:
    """A file of a web server, with its statement at the same address and `.sig`."""

    def __init__(self, source: Source, web: Web) -> None:
        self._url = source.origin + source.path
        self._web = web

    def ask(self, mark: str | None) -> Found | None:
        """By the statement's ETag; without one it is the whole statement each time."""
        url = self._url + SUFFIX
        known = {} if mark is None or mark.startswith(DIGEST) else {"If-None-Match": mark}
        answer = self._web.get(url, known, most_bytes=MOST_BYTES)
        if answer.status == 304 and known:
            return None
        require_found(answer, url)
        now = _mark(answer.headers.get("etag", ""), answer.body)
        return None if now == mark else Found(answer.body, now)

    def url(self, file: SignedFile, *, beside: str = "") -> str:  # noqa: ARG002
        """By its name."""
        return self._url + beside


class Layer(Struct, frozen=True):
    """A file of a manifest."""

    digest: Annotated[str, Meta(pattern="^[a-z0-9]+:[0-9a-f]{32,128}$")]
    size: int
    mediaType: str = ""  # noqa: N815 - OCI's name
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_envelope(self) -> bool:
        """By its media type, or by the name of the file that was pushed."""
        return self.mediaType == ENVELOPE_TYPE or self.annotations.get(TITLE, "").endswith(SUFFIX)


class ImageManifest(Struct, frozen=True):
    """What a tag names: files, as `oras push` writes them. manifests: of an index instead."""

    layers: tuple[Layer, ...] = ()
    manifests: tuple[Raw, ...] = ()


class RegistryTag:
    """A tag of an OCI registry, whose manifest has the statement among its layers.

    The statement alone says which file is the model: the registry has it under its digest.
    """

    def __init__(self, source: Source, web: Web) -> None:
        self._api = f"{source.origin}/v2/{source.path}"
        self._tag = source.tag
        self._web = web

    def ask(self, mark: str | None) -> Found | None:
        """By the manifest's digest, for which a HEAD request suffices."""
        url, headers = f"{self._api}/manifests/{self._tag}", {"Accept": ", ".join(MANIFESTS)}
        head = self._web.get(url, headers, most_bytes=0, method="HEAD")
        require_found(head, url)
        digest = head.headers.get("docker-content-digest") or head.headers.get("etag", "")
        if digest and digest == mark:
            return None
        answer = self._web.get(url, headers, most_bytes=MOST_MANIFEST_BYTES)
        require_found(answer, url)
        now = _mark(digest, answer.body)
        return None if now == mark else Found(self._envelope(answer.body), now)

    def url(self, file: SignedFile, *, beside: str = "") -> str:  # noqa: ARG002
        """By its digest."""
        return f"{self._api}/blobs/sha256:{file.sha256}"

    def _envelope(self, body: bytes) -> bytes:
        try:
            manifest = decode(body, ImageManifest)
        except (msgspec.DecodeError, RecursionError) as error:
            raise SourceRefused(f"the tag's manifest cannot be read: {error}") from error
        layer = next((layer for layer in manifest.layers if layer.is_envelope), None)
        if manifest.manifests:
            raise SourceRefused(
                "the tag names an index of several manifests; follow the tag of the one that `oras "
                "push` has pushed with the file and its statement"
            )
        if layer is None:
            raise SourceRefused(
                f"the tag has no statement: push the file together with its {SUFFIX} by `oras "
                f"push`, of media type {ENVELOPE_TYPE}"
            )
        url = f"{self._api}/blobs/{layer.digest}"
        answer = self._web.get(url, {}, most_bytes=MOST_BYTES)
        require_found(answer, url)
        return answer.body


def _mark(text: str, body: bytes) -> str:
    """The source's own, if it can be sent back, else by the body."""
    if text and text.isascii() and len(text) <= MOST_MARK_CHARACTERS:
        return text
    return DIGEST + hashlib.sha256(body).hexdigest()
