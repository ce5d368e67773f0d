"""What the daemon and its jobs take from the device: memory, time, power."""
