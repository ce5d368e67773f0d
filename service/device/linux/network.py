"""Whether the network costs by the byte, as NetworkManager knows or guesses it.

Not among the signals that are read all the time: only who is about to use the network asks.
"""

from __future__ import annotations

from service.device.linux.bus import SystemBus
from service.device.reading import Moment

SERVICE = "org.freedesktop.NetworkManager"
METERED = frozenset({1, 3})
"""NMMetered: yes, and guessed yes; 0 is unknown, 2 is no, 4 is guessed no.

Source: NetworkManager's D-Bus API, NMMetered.
"""


def is_metered(bus: SystemBus, now: Moment) -> bool:
    """Whether it is known to be; where nothing tells, it is not. One thread at a time may ask."""
    path = "/org/freedesktop/NetworkManager"
    try:
        known = bus.properties(now, service=SERVICE, path=path, interface=SERVICE)
    except OSError:
        return False
    finally:
        bus.close()
    return known.get("Metered") in METERED
