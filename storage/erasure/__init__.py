"""Permanent deletion of samples, and of the versions that were trained on them."""
