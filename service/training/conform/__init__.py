"""Conforms a forward graph to what the engine's gradient builder can do.

The result computes the same as what was uploaded, which is checked by running both.
"""
