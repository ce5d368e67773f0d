from __future__ import annotations

import pytest

from service.policy.device_monitor import child_limits
from service.policy.policy import default_policy
from service.training.protocol.messages.shared import ResourceLimits


@pytest.mark.parametrize(("idle_s", "threads"), [(301, 8), (299, 1), (None, 1)])
def test_a_device_in_use_lends_fewer_threads(device, clock, idle_s, threads):
    policy = default_policy(has_battery=False, processors=8)
    snapshot = device(clock.now(), user_idle_s=idle_s)
    assert child_limits(policy, snapshot) == ResourceLimits(threads=threads, nice=10)
