"""A policy with every condition on, whatever the defaults are."""

from __future__ import annotations

from dataclasses import replace

from service.policy.policy import Policy, default_policy

MIB = 2**20


def strict_laptop() -> Policy:
    """A laptop whose person wants to hear nothing of training."""
    policy = default_policy(has_battery=True, processors=8)
    return replace(
        policy,
        max_foreign_cpu_percent=25.0,
        max_memory_pressure_percent=10.0,
        max_io_pressure_percent=40.0,
        settle_seconds=15.0,
        max_temperature_c=80.0,
        resume_temperature_c=70.0,
        min_free_memory_bytes=256 * MIB,
        resume_free_memory_bytes=512 * MIB,
        min_free_disk_bytes=512 * MIB,
        resume_free_disk_bytes=1024 * MIB,
        unknown=replace(policy.unknown, foreign_cpu="block"),
    )
