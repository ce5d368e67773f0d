"""Deleting samples for good, and the versions that learned from them."""
