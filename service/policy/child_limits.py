"""Threads and niceness that the policy lets the training child take."""

from __future__ import annotations

from service.device.reading import DeviceSnapshot
from service.policy.policy import Policy
from service.policy.signals import Signals
from service.training.protocol.messages.shared import Limits


def child_limits(policy: Policy, snapshot: DeviceSnapshot) -> Limits:
    """Threads by whether somebody uses the device; unknown counts as used.

    A job goes on bit for bit only with the threads that it began with.
    """
    idle_s = Signals(snapshot.signals).number("user_idle_s")
    is_idle = idle_s is not None and idle_s >= policy.idle_minutes * 60
    return Limits(
        threads=policy.max_threads_idle if is_idle else policy.max_threads_busy,
        nice=policy.nice,
    )
