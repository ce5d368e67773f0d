"""Engines: run training steps, behind one protocol."""
