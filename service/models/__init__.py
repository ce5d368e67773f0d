"""Registered models: how they come, change, and what apps get of them."""
