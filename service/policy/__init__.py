"""When a job may run: the policy, and its verdict on the device's signals."""

from service.policy.judge import Judge, Verdict
from service.policy.policy import Given, Policy, Unknown, default_policy
from service.policy.time_windows import Window
from service.policy.validation import from_dict, to_dict

__all__ = [
    "Given",
    "Judge",
    "Policy",
    "Unknown",
    "Verdict",
    "Window",
    "default_policy",
    "from_dict",
    "to_dict",
]
