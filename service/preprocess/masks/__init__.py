"""Masks: labels that say the class of each pixel of a photo, as PNG or run lengths."""
