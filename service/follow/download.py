"""Downloads that survive cut connections and restarts, and end only with the signed bytes."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import httpx

from service.follow.errors import ContentMismatch, SourceUnreachable
from service.follow.statement import SignedFile
from service.follow.web import Web, require_found
from service.samples.disk_reserve import require_room
from storage.disk.durable import file_faults, sync_file, sync_folder

PAUSES_S = (0.2, 1.0, 3.0, 10.0)
"""Before the same place is asked for again; a download that got further begins with the first."""
CHECK_ROOM_BYTES = 16 << 20
"""After so many bytes the disk is asked again: others fill it too."""
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class Download:
    """One file. path: where its bytes gather, which may have some already.

    report: called with the number of bytes that are there.
    """

    def __init__(
        self,
        file: SignedFile,
        path: Path,
        *,
        reserve_bytes: int,
        report: Callable[[int], None],
    ) -> None:
        self._file = file
        self._path = path
        self._reserve_bytes = reserve_bytes
        self._report = report
        self._digest = hashlib.sha256()
        self._have = 0

    def run(self, web: Web, url: str) -> None:
        """Return once the file is whole, right and flushed.

        Bytes of an earlier run may have been lost in a power cut: if the digest is wrong with them,
        all is downloaded once more before the source is blamed. Raises ContentMismatch,
        SourceUnreachable, SourceRefused, RedirectRefused, StorageFull, StorageBroken.
        """
        with file_faults("cannot write the download"):
            try:
                self._download(web, url)
            except ContentMismatch:
                self._path.unlink(missing_ok=True)  # Windows removes no file that is open
                raise
            with self._path.open("r+b") as file:  # and flushes none that is open for reading
                sync_file(file)
            sync_folder(self._path.parent)

    def _download(self, web: Web, url: str) -> None:
        self._take_up()
        kept = self._have
        self._complete(web, url)
        if self._is_wrong and kept:
            self._begin_anew()
            self._complete(web, url)
        if self._is_wrong:
            raise self._mismatch(f"they have the digest {self._digest.hexdigest()}")

    @property
    def _is_wrong(self) -> bool:
        return self._digest.hexdigest() != self._file.sha256

    def _take_up(self) -> None:
        """Count and digest what an earlier run has left."""
        self._begin_anew(keep=self._path.exists())
        with self._path.open("rb") as file:
            while chunk := file.read(1 << 20):
                self._digest.update(chunk)
                self._have += len(chunk)
        if self._have > self._file.size_bytes:
            self._begin_anew()

    def _begin_anew(self, *, keep: bool = False) -> None:
        self._digest, self._have = hashlib.sha256(), 0
        if not keep:
            self._path.write_bytes(b"")

    def _complete(self, web: Web, url: str) -> None:
        failures = 0
        while self._have < self._file.size_bytes:
            before = self._have
            try:
                self._append(web, url)
            except SourceUnreachable:
                failures = 1 if self._have > before else failures + 1
                if failures > len(PAUSES_S):
                    raise
                time.sleep(PAUSES_S[failures - 1])

    def _append(self, web: Web, url: str) -> None:
        """Ask for what is missing, and take what comes."""
        self._require_room()
        headers = {"Range": f"bytes={self._have}-"} if self._have else {}
        with web.stream(url, headers) as response:
            if response.status_code == 416:
                self._begin_anew()
                raise SourceUnreachable("the source has fewer bytes than are here already")
            require_found(response, url)
            self._require_same_place(response)
            self._require_size(response)
            with self._path.open("r+b") as file:
                file.seek(self._have)
                self._take(response, file)
        if self._have < self._file.size_bytes:
            self._ended_early(response.headers)

    def _take(self, response: httpx.Response, file: BinaryIO) -> None:
        checked = self._have
        for chunk in response.iter_raw():
            if self._have + len(chunk) > self._file.size_bytes:
                raise self._mismatch("more come")
            file.write(chunk)
            file.flush()  # a child that is killed leaves what it has reported
            self._digest.update(chunk)
            self._have += len(chunk)
            self._report(self._have)
            if self._have - checked > CHECK_ROOM_BYTES:
                checked = self._have
                self._require_room()

    def _require_room(self) -> None:
        require_room(
            self._path.parent,
            reserve_bytes=self._reserve_bytes,
            incoming_bytes=self._file.size_bytes - self._have,
        )

    def _require_same_place(self, response: httpx.Response) -> None:
        """Raises ContentMismatch for another part; a server that sends all from the start may."""
        if response.status_code == 200:
            self._begin_anew()
            return
        match = _RANGE.fullmatch(response.headers.get("content-range", ""))
        if match is None or int(match[1]) != self._have:
            raise self._mismatch(f"from byte {self._have} on another part comes")
        if match[2] not in ("*", str(self._file.size_bytes)):
            raise self._mismatch(f"the source has {match[2]}")

    def _require_size(self, response: httpx.Response) -> None:
        announced = response.headers.get("content-length")
        missing = self._file.size_bytes - self._have
        if announced is not None and announced != str(missing):
            raise self._mismatch(f"of {missing} that are missing the source sends {announced}")

    def _ended_early(self, headers: Mapping[str, str]) -> None:
        """Raises ContentMismatch if the answer was whole, else SourceUnreachable."""
        if "chunked" in headers.get("transfer-encoding", ""):
            raise self._mismatch(f"the source ends after {self._have}")
        raise SourceUnreachable(f"the connection ended after {self._have} bytes")

    def _mismatch(self, what: str) -> ContentMismatch:
        return ContentMismatch(f"{self._file.size_bytes} bytes are signed, and {what}")
