"""One inquiry, from the question to the verified files; in the child."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from service.follow.download import Download
from service.follow.login import Authentication
from service.follow.messages import (
    Downloading,
    Fetched,
    FetchMessage,
    Inquiry,
    Offers,
    Reported,
    Unchanged,
    VendorReport,
)
from service.follow.places import Place, place_of
from service.follow.source import parsed
from service.follow.statement import (
    TOKENIZER_SUFFIX,
    SignedFile,
    Statement,
    is_chosen,
    judged,
    verified,
)
from service.follow.web import Web, require_found
from storage.database.codec import encode, utc_now
from storage.errors import HoneError

REPORT_S = 1.0
MOST_ANSWER_BYTES = 64 << 10
Send = Callable[[FetchMessage], None]


def carry_out(inquiry: Inquiry, send: Send) -> FetchMessage:
    """The last message. Raises HoneError."""
    if inquiry.report is not None:
        send(_reported(inquiry.report))
    source = parsed(inquiry.terms.source)
    with closing(Web(source, inquiry.terms.hosts)) as web:
        repository = source.path if source.kind == "oci" else None
        web.authorize = Authentication(web, inquiry.login, repository=repository).answer
        return _ask(inquiry, place_of(source, web), web, send)


def _reported(report: VendorReport) -> Reported:
    """Send it; whether that works decides nothing else."""
    headers, body = {"Content-Type": "application/json"}, encode(report.body)
    try:
        with closing(Web(parsed(report.url), ())) as web:
            answer = web.get(
                report.url, headers, most_bytes=MOST_ANSWER_BYTES, method="POST", content=body
            )
            require_found(answer, report.url)
    except HoneError as error:
        return Reported(error.detail)
    return Reported()


def _ask(inquiry: Inquiry, place: Place, web: Web, send: Send) -> FetchMessage:
    terms = inquiry.terms
    offer = place.ask(inquiry.mark)
    if offer is None:
        return Unchanged()
    statement = verified(offer.envelope, terms.keys)
    base = judged(statement, name=terms.name, seen=inquiry.offered, now=utc_now())
    is_new = inquiry.taken is None or base.version > inquiry.taken
    chosen = is_chosen(inquiry.draw, of_operator=terms.percent, of_vendor=base.percent)
    offers = Offers(base, offer.mark, wanted=is_new and chosen)
    if not offers.wanted:
        return offers
    send(offers)
    return Fetching(inquiry, web, send).run(place, statement)


class Fetching:
    """Downloads the files of one statement, and tells how far it is, not too often."""

    def __init__(self, inquiry: Inquiry, web: Web, send: Send) -> None:
        self._folder = Path(inquiry.folder)
        self._reserve_bytes = inquiry.reserve_bytes
        self._web = web
        self._send = send
        self._whole_bytes = 0
        self._told_s = 0.0

    def run(self, place: Place, statement: Statement) -> Fetched:
        """The paths of the files. Those of earlier statements are removed."""
        model, tokenizer = statement.model, statement.tokenizer
        wanted = {file.sha256 for file in (model, tokenizer) if file is not None}
        for path in self._folder.iterdir():
            if path.name not in wanted:
                path.unlink()
        fetched = self._file(place.url(model), model)
        if tokenizer is None:
            return Fetched(fetched, None, statement.spec)
        beside = place.url(tokenizer, beside=TOKENIZER_SUFFIX)
        return Fetched(fetched, self._file(beside, tokenizer), statement.spec)

    def _file(self, url: str, file: SignedFile) -> str:
        path, reserve_bytes = self._folder / file.sha256, self._reserve_bytes
        Download(file, path, reserve_bytes=reserve_bytes, report=self._report).run(self._web, url)
        self._whole_bytes += file.size_bytes
        return str(path)

    def _report(self, size_bytes: int) -> None:
        if time.monotonic() - self._told_s >= REPORT_S:
            self._told_s = time.monotonic()
            self._send(Downloading(self._whole_bytes + size_bytes))
