"""Logind's word before the device sleeps, from python-dbusmock on a bus of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import Served, blobs, mlp, wait_until

from service.device.linux.bus import SystemBus
from service.device.reading import Moment

SERVICE = "org.freedesktop.login1"
PATH = "/org/freedesktop/login1"
MANAGER = f"{SERVICE}.Manager"

pytestmark = pytest.mark.needs_dbusmock


@pytest.fixture
def logind(mock: Callable[..., Any]) -> Any:
    return mock("logind", SERVICE, PATH)


def inhibitors() -> list[tuple[Any, ...]]:
    """What delays sleep, by logind's own list."""
    bus = SystemBus()
    (listed,) = bus.call(
        Moment.now(), service=SERVICE, path=PATH, interface=MANAGER, method="ListInhibitors"
    )
    bus.close()
    return [each for each in listed if each[1] == "honed"]


def prepare_for_sleep(logind: Any, asleep: bool) -> None:
    logind.call("EmitSignal", "sssav", MANAGER, "PrepareForSleep", "b", [("b", asleep)])


def test_the_running_job_is_saved_before_the_device_sleeps_and_goes_on_after(
    logind: Any, serve: Callable[..., Served]
) -> None:
    served = serve()
    served.register("m", mlp(8, 16, 3))
    served.upload("m", **blobs(300, 8, 3))
    wait_until(inhibitors, "a delay lock")
    job_id = served.ask_for_job("m", epochs=1_000_000)["id"]
    wait_until(lambda: served.job(job_id)["progress"]["step"], "the first steps")

    prepare_for_sleep(logind, True)
    wait_until(lambda: not inhibitors(), "the lock to be released")
    saved = served.job(job_id)
    prepare_for_sleep(logind, False)
    served.wait_for_job(job_id, "running")
    wait_until(inhibitors, "the lock to be taken again")

    assert saved["state"] == "paused"
    assert [each["condition"] for each in saved["blocked_by"]] == ["asleep"]


def test_a_sleep_with_nothing_to_save_is_not_delayed(
    logind: Any, serve: Callable[..., Served]
) -> None:
    serve()
    ((what, who, _, mode, *_),) = wait_until(inhibitors, "a delay lock")

    prepare_for_sleep(logind, True)

    wait_until(lambda: not inhibitors(), "the lock to be released", deadline_s=4)
    assert (what, who, mode) == ("sleep", "honed", "delay")
