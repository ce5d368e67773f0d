"""Signals on Linux, from /proc, /sys and D-Bus."""
