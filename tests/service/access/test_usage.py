from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta, timezone

import pytest

from service.access.principal import ADMIN, Scope
from service.access.tokens import TokenRegistry
from service.access.usage import Usage, Usages
from service.errors import QuotaExceeded
from storage.errors import DiskFull
from storage.records.access import Limits
from storage.store import Store

NOON = datetime(2030, 1, 1, 12, tzinfo=timezone.utc)


@pytest.fixture
def seconds() -> list[float]:
    return [100.0]


@pytest.fixture
def usage(seconds: list[float]) -> Usage:
    return Usage(None, clock=lambda: seconds[0])


def open_request(usage, **limits):
    return usage.request(Limits(**limits), lambda: None, now=NOON)


def test_without_limits_all_but_too_many_requests_at_once_is_let_through(usage):
    with ExitStack() as opened:
        for _ in range(64):
            opened.enter_context(open_request(usage))
            opened.enter_context(usage.within("uploads", Limits()))
            opened.enter_context(usage.within("predictions", Limits()))
        with pytest.raises(QuotaExceeded, match="requests at once is 64"):
            open_request(usage).__enter__()
    assert not usage.opened


def test_requests_that_are_open_at_once_are_bounded(usage):
    with open_request(usage, connections=2), open_request(usage, connections=2):
        with pytest.raises(QuotaExceeded, match="requests at once is 2") as caught:
            open_request(usage, connections=2).__enter__()
        assert caught.value.retry_after_s == 1
    with open_request(usage, connections=2):
        assert len(usage.opened) == 1


@pytest.mark.parametrize("kind", ["uploads", "registrations"])
def test_each_kind_has_a_limit_of_its_own(usage, kind):
    limits = Limits(**{kind: 1})
    with usage.within(kind, limits):
        with pytest.raises(QuotaExceeded, match=f"{kind} at once is 1"):
            usage.within(kind, limits).__enter__()
        other = "uploads" if kind == "registrations" else "registrations"
        with usage.within(other, limits):
            pass
    with usage.within(kind, limits):
        pass


def test_predictions_come_back_at_the_rate_that_was_set(usage, seconds):
    limits = Limits(predictions_per_second=0.5)

    def ask():
        with usage.within("predictions", limits):
            pass

    ask()
    with pytest.raises(QuotaExceeded, match=r"predictions_per_second is 0\.5") as caught:
        ask()
    assert caught.value.retry_after_s == 2
    seconds[0] += 1.9
    with pytest.raises(QuotaExceeded):
        ask()
    seconds[0] += 0.1
    ask()


@pytest.mark.parametrize("idle_s", [0, 1000])
def test_a_burst_is_one_second_long_and_may_be_the_first(usage, seconds, idle_s):
    limits = Limits(predictions_per_second=5)
    seconds[0] += idle_s
    for _ in range(5):
        with usage.within("predictions", limits):
            pass
    with pytest.raises(QuotaExceeded):
        usage.within("predictions", limits).__enter__()


def test_bytes_are_counted_by_utc_days(usage):
    usage.sent(60, 100, now=NOON)
    with pytest.raises(QuotaExceeded, match=r"100 bytes a day .* has sent 60") as caught:
        usage.sent(41, 100, now=NOON)
    assert caught.value.retry_after_s == 12 * 3600
    usage.sent(40, 100, now=NOON)
    usage.sent(100, 100, now=NOON + timedelta(hours=12))
    assert (usage.used_on, usage.used_bytes) == ("2030-01-02", 100)


def test_use_that_the_disk_did_not_take_is_stored_the_next_time(store: Store) -> None:
    async def use_save_and_save_again() -> None:
        tokens = TokenRegistry(store)
        usages = Usages(store, tokens)
        for number in range(200):  # rows that grow over more than a page
            _, secret = tokens.create(
                ADMIN,
                name=f"app {number}",
                scopes=[Scope.PREDICT],
                models=None,
                limits=Limits(),
                expires_at=None,
            )
            with usages.of(tokens.principal(secret)).request(Limits(), lambda: None, now=NOON):
                pass

        with no_room(store), pytest.raises(DiskFull):
            await usages.save()
        assert {each.last_used_at for each in store.tokens.list()} == {None}

        await usages.save()
        assert {each.last_used_at for each in store.tokens.list()} == {NOON}

    asyncio.run(use_save_and_save_again())


@contextmanager
def no_room(store: Store) -> Iterator[None]:
    """SQLite finds the disk full as soon as the database grows."""
    connection = store._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    yield
    connection.execute("PRAGMA max_page_count = 1000000")
