"""Whether the network costs by the byte: NetworkManager as dbusmock plays it."""

from __future__ import annotations

import pytest

from service.device.linux.network import SERVICE, Network


@pytest.fixture
def manager(mock):
    return mock("networkmanager", SERVICE, "/org/freedesktop/NetworkManager")


@pytest.mark.needs_dbusmock
@pytest.mark.parametrize(
    ("told", "metered"), [(0, None), (1, True), (2, False), (3, True), (4, False)]
)
def test_it_is_what_network_manager_knows_or_guesses(manager, clock, told, metered):
    manager.call("AddProperties", "sa{sv}", SERVICE, {"Metered": ("u", told)})
    assert Network().metered(clock.now())[0] is metered


def test_without_a_bus_it_is_unknown_and_says_why(clock, monkeypatch):
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere")
    metered, why = Network().metered(clock.now())
    assert metered is None
    assert why
