"""Prediction with the promoted versions, in a process of its own."""
