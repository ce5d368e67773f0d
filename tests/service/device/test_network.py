"""Whether the network costs by the byte: NetworkManager as dbusmock plays it."""

from __future__ import annotations

import pytest

from service.device.linux.bus import SystemBus
from service.device.linux.network import SERVICE, is_metered


@pytest.fixture
def manager(mock):
    return mock("networkmanager", SERVICE, "/org/freedesktop/NetworkManager")


@pytest.mark.needs_dbusmock
@pytest.mark.parametrize(
    ("told", "metered"), [(0, False), (1, True), (2, False), (3, True), (4, False)]
)
def test_it_is_what_network_manager_knows_or_guesses(manager, clock, told, metered):
    manager.call("AddProperties", "sa{sv}", SERVICE, {"Metered": ("u", told)})
    assert is_metered(SystemBus(), clock.now()) is metered


def test_without_a_bus_it_is_not_known_to_cost(clock, monkeypatch):
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere")
    assert not is_metered(SystemBus(), clock.now())
