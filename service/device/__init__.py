"""Signals of the device: power, idle time, load, temperature."""
