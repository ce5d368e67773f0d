"""The verdict of another policy on the device as it is now; nothing is stored."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from service.device.reading import Signals
from service.device.sensors import process_watcher
from service.policy.conditions import checks
from service.policy.observer import Observation
from service.policy.policy import Policy
from storage.records.jobs import Blocker


class Forecast(Struct, frozen=True):
    """Whether a job could train under the policy, and if not, what would block it."""

    policy: Policy
    blocked_by: tuple[Blocker, ...]

    @property
    def eligible(self) -> bool:
        """Whether nothing would block."""
        return not self.blocked_by


def forecast(observation: Observation, policy: Policy, *, procfs: Path) -> Forecast:
    """The verdict once the policy's delays have passed, if the device stays as it is. Blocking.

    Between the level that stops and the one that resumes, a condition stays as it is now; one that
    was off until now starts blocked. A person's pause or snooze still applies.
    """
    snapshot = _with_processes(observation, policy, procfs)
    is_open = {
        check.condition
        for check in checks(observation.policy, snapshot, observation.trained_today_s)
    }
    is_open -= set(observation.verdict.conditions)
    by_policy = (
        Blocker(check.condition, check.detail)
        for check in checks(policy, snapshot, observation.trained_today_s)
        if check.bad or not (check.good or check.condition in is_open)
    )
    return Forecast(policy, (*observation.in_spite.blocked_by, *by_policy))


def _with_processes(observation: Observation, policy: Policy, procfs: Path) -> Signals:
    """Look for the policy's blocking programs; the snapshot covers only the current policy's."""
    if policy.blocking_processes == observation.policy.blocking_processes:
        return observation.snapshot
    watcher = process_watcher(procfs)
    watcher.watched = policy.blocking_processes
    readings = {reading.name: reading for reading in watcher.read(observation.at)}
    return Signals({**observation.snapshot.readings, **readings})
