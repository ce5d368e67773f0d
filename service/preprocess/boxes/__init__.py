"""Boxes: labels that say where things are on a photo, and of which classes."""
