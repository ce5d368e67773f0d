"""Heads that are computed from features instead of trained, chosen, and calibrated."""
