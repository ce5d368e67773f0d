"""When a job may run: the policy, and its verdict on the device's signals."""

from service.policy.judge import Judge, Verdict
from service.policy.policy import Given, Policy, Unknown, default_policy
from service.policy.validation import from_dict, to_dict
from service.policy.windows import Window

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
