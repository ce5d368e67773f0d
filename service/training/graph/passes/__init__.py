"""Passes over a model before it is differentiated, none of which changes what it computes."""
