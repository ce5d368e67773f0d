"""Deleting samples for good, together with the versions that were trained on them."""
