"""The service control manager of Windows, by pywin32."""

from __future__ import annotations

import sys
import winreg
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pywintypes
import servicemanager
import win32service
import win32serviceutil

from cli.errors import Failure

DISPLAY_NAME = "Hone"
DESCRIPTION = "Trains models on this device, with data that never leave it."
STATES = {
    win32service.SERVICE_STOPPED: "stopped",
    win32service.SERVICE_START_PENDING: "starting",
    win32service.SERVICE_STOP_PENDING: "stopping",
    win32service.SERVICE_RUNNING: "running",
    win32service.SERVICE_PAUSED: "paused",
}
DOES_NOT_EXIST, ACCESS_DENIED, NOT_ACTIVE, INVALID_LEVEL = 1060, 5, 1062, 124
"""ERROR_SERVICE_DOES_NOT_EXIST, ERROR_ACCESS_DENIED, ERROR_SERVICE_NOT_ACTIVE and
ERROR_INVALID_LEVEL of winerror.h."""
RESTART_AFTER_MS = 5_000
FORGET_FAILURES_AFTER_S = 86_400
PRESHUTDOWN_MS = 60_000
"""How long a shutdown waits: a running job saves a checkpoint first."""
STOP_TIMEOUT_S = 90


class ControlManager:
    """Services of this machine."""

    def state(self, name: str) -> str | None:
        """`running`, `stopped`…; None if there is no such service."""
        try:
            status = win32serviceutil.QueryServiceStatus(name)
        except pywintypes.error as error:
            if error.winerror == DOES_NOT_EXIST:
                return None
            raise _failure("ask for", name, error) from error
        return STATES.get(status[1], "in another state")

    def create(
        self, name: str, *, command: str, environment: Mapping[str, str], account: str
    ) -> None:
        """A service that starts with the system, and again after a failure."""
        with _told("create", name), _manager() as manager:
            service = win32service.CreateService(
                manager,
                name,
                DISPLAY_NAME,
                win32service.SERVICE_ALL_ACCESS,
                win32service.SERVICE_WIN32_OWN_PROCESS,
                win32service.SERVICE_AUTO_START,
                win32service.SERVICE_ERROR_NORMAL,
                command,
                None,
                False,
                None,
                account,
                None,
            )
            try:
                _configure(service)
                _set_environment(name, environment)
            except BaseException:
                win32service.DeleteService(service)
                raise
            finally:
                win32service.CloseServiceHandle(service)

    def start(self, name: str) -> None:
        """Start it."""
        with _told("start", name):
            win32serviceutil.StartService(name)

    def stop(self, name: str) -> None:
        """Stop it, and wait until it has ended."""
        with _told("stop", name, meaning_nothing=NOT_ACTIVE):
            win32serviceutil.StopService(name)
        with _told("wait for the end of", name):
            win32serviceutil.WaitForServiceStatus(
                name, win32service.SERVICE_STOPPED, STOP_TIMEOUT_S
            )

    def delete(self, name: str) -> None:
        """Remove a service that is stopped."""
        with _told("remove", name):
            win32serviceutil.RemoveService(name)


def register(name: str, handler: Callable[[int, int, Any], None]) -> Any:
    """Register a handler that Windows calls in its own thread; returns a handle for reports."""
    return servicemanager.RegisterServiceCtrlHandler(name, handler, True)


def report(handle: Any, status: tuple[int, ...]) -> None:
    """Report the service's state to Windows: SERVICE_STATUS of winsvc.h."""
    win32service.SetServiceStatus(handle, status)


def host(make: Callable[[Any], object]) -> None:
    """Be the process of the service until it ends. make: called with its arguments, in a thread.

    Raises Failure if Windows did not start this process as a service.
    """
    with _told("be the process of", "a service"):
        servicemanager.Initialize()
        servicemanager.PrepareToHostSingle(make)
        servicemanager.StartServiceCtrlDispatcher()


def _configure(service: Any) -> None:
    restart = (win32service.SC_ACTION_RESTART, RESTART_AFTER_MS)
    failures = {
        "ResetPeriod": FORGET_FAILURES_AFTER_S,
        "RebootMsg": "",
        "Command": "",
        "Actions": [restart] * 3,
    }
    for level, value in (
        (win32service.SERVICE_CONFIG_DESCRIPTION, DESCRIPTION),
        (win32service.SERVICE_CONFIG_FAILURE_ACTIONS, failures),
        # An exit with an error is also a failure, not only a crash.
        (win32service.SERVICE_CONFIG_FAILURE_ACTIONS_FLAG, True),
        (win32service.SERVICE_CONFIG_PRESHUTDOWN_INFO, PRESHUTDOWN_MS),
        (win32service.SERVICE_CONFIG_DELAYED_AUTO_START_INFO, True),
    ):
        try:
            win32service.ChangeServiceConfig2(service, level, value)
        except pywintypes.error as error:
            if error.winerror != INVALID_LEVEL:  # Wine lacks the flag of failures
                raise


def _set_environment(name: str, variables: Mapping[str, str]) -> None:
    path = rf"SYSTEM\CurrentControlSet\Services\{name}"
    lines = [f"{key}={value}" for key, value in variables.items()]
    if sys.platform == "win32":
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path, access=winreg.KEY_SET_VALUE) as key:
            winreg.SetValueEx(key, "Environment", 0, winreg.REG_MULTI_SZ, lines)


@contextmanager
def _manager() -> Iterator[Any]:
    manager = win32service.OpenSCManager(None, None, win32service.SC_MANAGER_ALL_ACCESS)
    try:
        yield manager
    finally:
        win32service.CloseServiceHandle(manager)


@contextmanager
def _told(what: str, name: str, *, meaning_nothing: int | None = None) -> Iterator[None]:
    """Raises Failure for an error of Windows."""
    try:
        yield
    except pywintypes.error as error:
        if error.winerror != meaning_nothing:
            raise _failure(what, name, error) from error


def _failure(what: str, name: str, error: Any) -> Failure:
    advice = "; run this as administrator" if error.winerror == ACCESS_DENIED else ""
    return Failure(f"cannot {what} {name}: {error.strerror}{advice}")
