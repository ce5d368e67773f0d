"""Registered models: registration, changes, variants, and `latest`, which apps fetch."""
