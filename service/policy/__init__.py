"""When a job may run: the policy, and its verdict on the device's signals."""
