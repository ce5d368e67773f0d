"""The terms on which a model follows a source: checked before they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from service.errors import InvalidInput
from service.follow.keys import pem_of, public_key_bytes
from service.follow.source import parsed, place
from storage.errors import Problem
from storage.records.follows import FollowTerms

NO_KEY = (
    "pin a public key of the vendor: without one nobody could tell whose file it is; `honed sign "
    "--make-key` makes a pair"
)


def checked_terms(terms: FollowTerms) -> FollowTerms:
    """With keys and hosts in one form. Raises InvalidInput with all that is wrong."""
    pems = list[str]()
    problems = [
        *_of_source(terms.source),
        *_of_keys(terms.keys, pems),
        *_of_hosts(terms.hosts),
        *_of_report(terms.report),
    ]
    if problems:
        raise InvalidInput("the source cannot be followed so", problems=problems)
    hosts = tuple(dict.fromkeys(host.lower() for host in terms.hosts))
    return replace(terms, keys=tuple(dict.fromkeys(pems)), hosts=hosts)


def _of_source(source: str) -> Iterator[Problem]:
    try:
        parsed(source)
    except ValueError as error:
        yield Problem("/source", str(error))


def _of_report(report: str | None) -> Iterator[Problem]:
    try:
        is_web = report is None or parsed(report).kind == "https"
    except ValueError as error:
        yield Problem("/report", str(error))
    else:
        if not is_web:
            detail = "name where a collector takes OTLP, such as https://host/v1/metrics"
            yield Problem("/report", detail)


def _of_keys(keys: Sequence[str], pems: list[str]) -> Iterator[Problem]:
    if not keys:
        yield Problem("/keys", NO_KEY)
    for index, key in enumerate(keys):
        try:
            pems.append(pem_of(public_key_bytes(key)))
        except ValueError as error:
            yield Problem(f"/keys/{index}", str(error))


def _of_hosts(hosts: Sequence[str]) -> Iterator[Problem]:
    for index, host in enumerate(hosts):
        try:
            is_host = bool(place(f"https://{host}")[0]) and not set(host) & set("/@?# ")
        except ValueError:
            is_host = False
        if not is_host:
            yield Problem(f"/hosts/{index}", "name a host, such as cdn.example or cdn.example:8443")
