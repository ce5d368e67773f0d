"""Engines: what carries out the steps of training, behind one protocol."""
