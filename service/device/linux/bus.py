"""The D-Bus system bus: calls to services, with short timeouts.

jeepney is pure Python without dependencies; it is imported at the first call and only on Linux.
The address is that of `DBUS_SYSTEM_BUS_ADDRESS`, as for every D-Bus program.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from service.device.reading import Moment
from storage.errors import in_words

if TYPE_CHECKING:
    from jeepney.io.blocking import DBusConnection

CALL_TIMEOUT_S = 0.5
RETRY_AFTER_S = 30.0
PROPERTIES = "org.freedesktop.DBus.Properties"


class SystemBus:
    """One connection, kept open. After a failure it pauses, so that a dead bus costs nothing."""

    def __init__(self) -> None:
        self._connection: DBusConnection | None = None
        self._failed_at_s: float | None = None
        self._failure = ""

    def call(
        self,
        now: Moment,
        *,
        service: str,
        path: str,
        interface: str,
        method: str,
        signature: str | None = None,
        body: tuple[Any, ...] = (),
    ) -> tuple[Any, ...]:
        """The reply's body. Never starts a service that is not running. Raises OSError."""
        if sys.platform != "linux":
            raise OSError("there is no D-Bus system bus on this platform")
        self._raise_if_resting(now)
        from jeepney import DBusAddress, MessageFlag, MessageType, new_method_call

        address = DBusAddress(path, bus_name=service, interface=interface)
        message = new_method_call(address, method, signature, body)
        message.header.flags = MessageFlag.no_auto_start
        try:
            reply = self._connect().send_and_get_reply(message, timeout=CALL_TIMEOUT_S)
        # jeepney raises RuntimeError and ValueError for an address that it cannot use.
        except (OSError, RuntimeError, ValueError) as error:
            self.close()
            self._failed_at_s = now.monotonic_s
            self._failure = f"D-Bus system bus: {in_words(error) or type(error).__name__}"
            raise OSError(self._failure) from error
        if reply.header.message_type is MessageType.error:
            raise OSError(f"{service} does not answer: {' '.join(map(str, reply.body))}")
        return tuple(reply.body)

    def properties(
        self, now: Moment, *, service: str, path: str, interface: str
    ) -> Mapping[str, Any]:
        """All properties of an object, without their D-Bus signatures. Raises OSError."""
        body = self.call(
            now,
            service=service,
            path=path,
            interface=PROPERTIES,
            method="GetAll",
            signature="s",
            body=(interface,),
        )
        return {name: value for name, (_, value) in body[0].items()}

    def close(self) -> None:
        """Close the connection, if there is one; a later call opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> DBusConnection:
        from jeepney.io.blocking import open_dbus_connection

        if self._connection is None:
            self._connection = open_dbus_connection("SYSTEM", auth_timeout=CALL_TIMEOUT_S)
        return self._connection

    def _raise_if_resting(self, now: Moment) -> None:
        failed_at_s = self._failed_at_s
        if failed_at_s is not None and 0 <= now.monotonic_s - failed_at_s < RETRY_AFTER_S:
            raise OSError(self._failure)
        self._failed_at_s = None
