"""Passes over a model before differentiation; none changes what it computes."""
