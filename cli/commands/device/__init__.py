"""Commands of the device: status, signals, policy, events, live screen."""
