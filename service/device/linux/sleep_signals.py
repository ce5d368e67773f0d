"""Logind's signal before the device sleeps, and a lock that delays it; over D-Bus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.device.linux.logind import SERVICE

if TYPE_CHECKING:
    from jeepney import Message
    from jeepney.fds import FileDescriptor
    from jeepney.io.blocking import DBusConnection

PATH = "/org/freedesktop/login1"
MANAGER = f"{SERVICE}.Manager"
SIGNAL = "PrepareForSleep"
CALL_TIMEOUT_S = 0.5


class SleepSignals:
    """A separate connection to the system bus. Calls block for half a second at most."""

    def __init__(self) -> None:
        from jeepney import MatchRule, message_bus
        from jeepney.io.blocking import open_dbus_connection

        self._lock: FileDescriptor | None = None
        try:
            self._connection: DBusConnection = open_dbus_connection(
                "SYSTEM", enable_fds=True, auth_timeout=CALL_TIMEOUT_S
            )
        # jeepney raises RuntimeError and ValueError for an address that it cannot use.
        except (RuntimeError, ValueError) as error:
            raise OSError(f"D-Bus system bus: {error}") from error
        rule = MatchRule(type="signal", sender=SERVICE, interface=MANAGER, member=SIGNAL, path=PATH)
        try:
            self._call(message_bus.AddMatch(rule))
            self.delay()
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Readable when there may be something to `poll`."""
        return int(self._connection.sock.fileno())

    def poll(self) -> list[bool]:
        """The signals since the last call: True when about to sleep, False when awake.

        Raises OSError when the bus is gone.
        """
        said: list[bool] = []
        while True:
            try:
                message = self._connection.receive(timeout=0)
            except TimeoutError:
                return said
            if _is_signal(message):
                said.append(bool(message.body[0]))

    def delay(self) -> None:
        """Delay sleep until `release`, for at most five seconds by logind's default.

        Raises OSError.
        """
        from jeepney import DBusAddress, new_method_call

        manager = DBusAddress(PATH, bus_name=SERVICE, interface=MANAGER)
        why = ("sleep", "honed", "saves the state of the running job", "delay")
        self.release()
        (self._lock,) = self._call(new_method_call(manager, "Inhibit", "ssss", why))

    def release(self) -> None:
        """Let the device sleep."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def close(self) -> None:
        """Close the connection, and let the device sleep."""
        self.release()
        self._connection.close()

    def _call(self, message: Message) -> tuple[Any, ...]:
        from jeepney import MessageFlag, MessageType

        message.header.flags = MessageFlag.no_auto_start
        reply = self._connection.send_and_get_reply(message, timeout=CALL_TIMEOUT_S)
        if reply.header.message_type is MessageType.error:
            raise OSError(f"{SERVICE}: {' '.join(map(str, reply.body))}")
        return tuple(reply.body)


def _is_signal(message: Message) -> bool:
    from jeepney import HeaderFields, MessageType

    return (
        message.header.message_type is MessageType.signal
        and message.header.fields.get(HeaderFields.member) == SIGNAL
    )
