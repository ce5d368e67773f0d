"""Heads that are computed from features instead of trained, and the choice between heads."""
