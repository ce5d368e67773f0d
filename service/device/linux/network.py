"""Whether the network costs by the byte, as NetworkManager knows or guesses it.

Not among the signals that are read all the time: only who is about to use the network asks.
"""

from __future__ import annotations

import sys

from service.device.linux.bus import PROPERTIES, SystemBus
from service.device.reading import Moment
from storage.errors import in_words

SERVICE = "org.freedesktop.NetworkManager"
METERED = {1: True, 2: False, 3: True, 4: False}
"""NMMetered: yes, no, guessed yes, guessed no; 0 is unknown.

Source: NetworkManager's D-Bus API, NMMetered.
"""


class Network:
    """The device's connection to others. One thread at a time may ask."""

    def __init__(self) -> None:
        self._bus = SystemBus()

    def metered(self, now: Moment) -> tuple[bool | None, str]:
        """Whether it is; None for unknown, with the reason."""
        if sys.platform != "linux":
            return None, "this platform does not tell"
        try:
            (answer,) = self._bus.call(
                now,
                service=SERVICE,
                path="/org/freedesktop/NetworkManager",
                interface=PROPERTIES,
                method="Get",
                signature="ss",
                body=(SERVICE, "Metered"),
            )
        except OSError as error:
            return None, in_words(error)
        finally:
            self._bus.close()
        return METERED.get(answer[1]), "NetworkManager does not know"
