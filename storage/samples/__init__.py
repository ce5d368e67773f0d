"""Samples: staged, stored, found, counted, and evicted by quota."""
